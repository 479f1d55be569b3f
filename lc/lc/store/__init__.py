"""What LC knows, on disk: it is there again after a restart, kill -9 and cut off included.

store     what the rest of LC sees
writer    the asyncio side of writing: who waits, one group of changes at a time
memory    what is on disk, in memory; the draft of what it becomes
tables    what each change is in SQL; reading it back
database  one open database: transactions, what becomes of one that is broken
disk      the thread that touches it
files     who may read and write the files; what is set aside
failures  what may be raised
"""

from lc.core.version_compare import Change
from lc.store.failures import OutboxFull, StoreUnavailable
from lc.store.store import Store, open_store
from lc.store.writer import Listener

__all__ = ["Change", "Listener", "OutboxFull", "Store", "StoreUnavailable", "open_store"]
