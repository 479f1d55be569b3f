"""What LC knows, on disk: it is there again after a restart, kill -9 and offline included.

store        what the rest of LC sees
writer       the asyncio side of writing: who waits, one group of changes at a time
transaction  what one group of changes makes of memory and disk
contents     what is on disk, in memory, and how it is read there
tables       what each change is in SQL
database     one open database: its form, transactions, what becomes of one that is broken
failures     what may be raised
"""

from lc.store.failures import OutboxFull, StoreUnavailable
from lc.store.store import Store, open_store
from lc.store.transaction import Change
from lc.store.writer import StoreListener

__all__ = ["Change", "OutboxFull", "Store", "StoreListener", "StoreUnavailable", "open_store"]
