"""What is written to the journal, and what it returns after a restart.

Times (`at`) are unix seconds. What a record holds is the journal's afterwards: no caller changes
it.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope


class ListChunk(Struct, frozen=True, eq=False):
    """Objects of a stream's first list, of which more is to come. A restart knows nothing of them,
    until `ListReplaced` says that the list is whole."""

    scope: ListScope
    items: Sequence[Item]


class ListAborted(Struct, frozen=True, eq=False):
    """The rest of a stream's first list does not come."""

    scope: ListScope


class ListReplaced(Struct, frozen=True, eq=False):
    """A stream's complete list at `cursor`, which upstream sent at `at`."""

    scope: ListScope
    kind: str
    api_version: str
    cursor: int
    items: Sequence[Item]
    at: float


class EventsApplied(Struct, frozen=True, eq=False):
    """A stream has come from cursor `after` to `cursor` by these changes, in order; None is for a
    deletion. Without changes it is a bookmark."""

    scope: ListScope
    after: int
    cursor: int
    changes: Sequence[tuple[Key, Item | None]]
    at: float


class StreamDeleted(Struct, frozen=True, eq=False):
    """A stream, and all that it holds."""

    scope: ListScope


class StreamTouched(Struct, frozen=True, eq=False):
    """A client read the stream."""

    scope: ListScope
    at: float


class ObjectSeen(Struct, frozen=True, eq=False):
    """An object as upstream answered it at `at`, outside of any stream; `is_of_node`: the node
    itself asked for it."""

    resource: ResourceName
    item: Item
    at: float
    is_of_node: bool = False


class ObjectEvicted(Struct, frozen=True, eq=False):
    """An object that is not cached any more, as the node's or as another's."""

    resource: ResourceName
    key: Key
    is_of_node: bool = False


class Blob(Struct, frozen=True, eq=False):
    """Whatever its owner wants back under `key` of its `space`; None removes it. `resource`: whose
    objects it tells of, where there are such."""

    space: str
    key: bytes
    value: bytes | None
    resource: ResourceName | None = None


OfStream = ListChunk | ListAborted | ListReplaced | EventsApplied | StreamDeleted | StreamTouched
Record = OfStream | ObjectSeen | ObjectEvicted | Blob


class SavedStream(Struct, frozen=True, eq=False):
    """`items` are all objects at `cursor`, which upstream confirmed last at `confirmed_at`."""

    scope: ListScope
    kind: str
    api_version: str
    cursor: int
    items: list[Item]
    used_at: float
    confirmed_at: float


class Saved(Struct, frozen=True, eq=False):
    """What the journal held; `seen` with the newest last; `kept` by space. `note`: why something
    that was there is missing."""

    streams: Sequence[SavedStream] = ()
    seen: Sequence[ObjectSeen] = ()
    kept: Mapping[str, Mapping[bytes, bytes]] = {}
    note: str | None = None
