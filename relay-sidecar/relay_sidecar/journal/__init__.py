"""What the relay knows, on disk: it is there again after a restart, kill -9 included.

records   what is told to it, and what it tells
journal   the asyncio side: who waits, what happens while the disk fails
writer    the thread: groups, order, failures
database  one open database: transactions, checkpoints, making it smaller
tables    what a record changes
rows      the tables on disk; reading them back
files     who may read and write them; what is set aside
"""

from edge_sidecars.walstore.directory import DirectoryInUse
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import (
    Blob,
    EventsApplied,
    ListAborted,
    ListChunk,
    ListReplaced,
    ObjectEvicted,
    ObjectSeen,
    Record,
    Saved,
    SavedObject,
    SavedStream,
    StreamDeleted,
    StreamTouched,
)

__all__ = [
    "Blob",
    "DirectoryInUse",
    "EventsApplied",
    "Journal",
    "ListAborted",
    "ListChunk",
    "ListReplaced",
    "ObjectEvicted",
    "ObjectSeen",
    "Record",
    "Saved",
    "SavedObject",
    "SavedStream",
    "StreamDeleted",
    "StreamTouched",
]
