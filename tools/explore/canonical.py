"""One state as bytes: equal for states from which everything goes on equally.

Times become "so long ago" or "in so long", by the clock of whoever keeps them; what is longer ago
than `OLD` is just old, because no rule of the cores looks back so far. Resource versions, stamps
and identities of one pod keep their order only: the cores compare them, and never count with them.
Ids of requests, uids and digests are
numbered anew. What is only reported, never judged by, is left out.
"""

import enum
import hashlib
import marshal
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from elector_sidecar.core.lease import Lease, wall_seconds
from elector_sidecar.core.lease_watch import STANDBY_RETRY, LeaseWatch
from elector_sidecar.core.observed_lease import ObservedLease
from elector_sidecar.core.timing import RETRY_DELAY
from tools.explore.actors.moment import Moment
from tools.explore.store import FIRST_VERSION

MICROS = 10**14
EPOCH = 1e9
STAMP_LENGTH = 27

# Reported, or counters whose values are compared with nothing but themselves.
SKIPPED = frozenset(
    {
        "_last_id",
        "_write_id",
        "_last_contact",
        "started_at",
        "acquire_time",
        "terms",
        "_candidate",
        "_answers_at",
        "_wall_ahead",
        "moves",
        "_moves",
        "_timing",
        "_member",
        "body",
        "hand_overs",
        "unconfirmed_hand_overs",
        "losses",
        "takes",
        "owned_since",
    }
)
# Seconds after which one past is as good as another, where that is sooner than the default: 0 for
# what is only compared with now, the pause for what a pause is counted from.
NOW = 0.0
SINCE = 1e-9
OLD_AFTER = {
    "_not_before": NOW,
    "not_before": NOW,
    "_watch_at": NOW,
    "_read_at": NOW,
    "_yields_until": NOW,
    "_hold_seen_at": NOW,
    "valid_until": NOW,
    "_sent_at": RETRY_DELAY,
}
IDS = frozenset({"id", "_watch_id", "_own_watch", "key"})
ID_KEYS = frozenset({"_reads", "_flying", "_open", "_reading"})


class Canonical:
    """Collects one state; `digest` at the end."""

    def __init__(self, *, old: float, kept: Iterable[str] = ()) -> None:
        self._skipped = SKIPPED - frozenset(kept)
        self._old = old
        self._out: list[Any] = []
        self._versions: list[int] = []
        self._stamps: list[int] = []
        self._names: list[int] = []
        self._texts: list[int] = []
        self._uids: list[int] = []
        self._now = 0.0
        self._wall = 0.0
        self._ids: dict[int, int] = {}
        self._objects: dict[int, int] = {}
        self.lease_extras: Callable[[Lease], Any] | None = None

    def at(self, now: float, wall: float) -> None:
        """What follows is kept by a clock that shows this."""
        self._now, self._wall = now, wall
        self._ids, self._objects = {}, {}

    def add(self, thing: Any) -> None:
        kind = thing.__class__
        out = self._out
        if kind is Moment:
            self._add_moment(thing, self._old)
        elif kind is str:
            self._add_text(thing)
        elif kind is int:
            if thing >= MICROS:
                out.append(max(thing - round(self._wall * 1e6), -1_500_000))
            elif thing >= FIRST_VERSION:
                self._versions.append(len(out))
                out.append(thing)
            else:
                out.append(thing)
        elif kind is float:
            out.append(max(round(thing - self._wall, 6), -1.5) if thing > EPOCH else thing)
        elif thing is None or kind is bool:
            out.append(thing)
        elif kind is tuple or kind is list:
            out.append(len(thing))
            for it in thing:
                self.add(it)
        elif kind is dict:
            self._add_dict(thing)
        elif kind is Lease:
            self._add_lease(thing)
        elif kind is set or kind is frozenset:
            out.append(len(thing))
            for it in sorted(thing, key=_order):
                self.add(it)
        elif isinstance(thing, enum.Enum):
            out.append(thing.name)
        elif kind is MethodType or kind is FunctionType or kind is BuiltinFunctionType:
            out.append("call")
        elif isinstance(thing, tuple):
            out.append(kind.__name__)
            for name, value in zip(thing._fields, thing, strict=True):  # type: ignore[attr-defined]
                self._add_field(name, value)
        else:
            self._add_object(thing)

    def _add_text(self, text: str) -> None:
        out = self._out
        if len(text) == STAMP_LENGTH and text[-1] == "Z":
            self._stamps.append(len(out))
            out.append(micros(text))
        elif "_" in text and text.rpartition("_")[2].isdecimal():
            self._names.append(len(out))
            out.append(text)
        elif len(text) == 16:
            self._texts.append(len(out))  # a digest
            out.append(text)
        elif text.startswith("uid-"):
            self._uids.append(len(out))
            out.append(text)
        else:
            out.append(text)

    def _add_dict(self, thing: dict[Any, Any]) -> None:
        """Of names in their order: the cores keep what is known of names, and no order of them."""
        self._out.append(len(thing))
        items = thing.items()
        if thing and next(iter(thing)).__class__ is str:
            items = sorted(items, key=_key)  # type: ignore[assignment]
        for key, value in items:
            self.add(key)
            self.add(value)

    def _add_lease(self, lease: Lease) -> None:
        spec = lease.spec
        self.add(lease.resource_version)
        self.add(lease.uid)
        self._out.append(spec.lease_duration)
        self.add(spec.holder_identity)
        self.add(spec.renew_time)
        self.add(lease.marked_holder)
        if self.lease_extras is not None:
            self.add(self.lease_extras(lease))

    def _add_object(self, thing: Any) -> None:
        known = self._objects.get(id(thing))
        if known is not None:
            self._out.append(known)
            return
        self._objects[id(thing)] = len(self._objects)
        self._out.append(thing.__class__.__name__)
        fields = thing.__dict__
        limits = _limits(thing)
        for name, value in fields.items():
            if value.__class__ is Moment and name not in self._skipped:
                self._add_moment(value, limits.get(name, self._old))
            else:
                self._add_field(name, value)

    def _add_moment(self, at: Moment, limit: float) -> None:
        ago = float.__sub__(at, self._now)
        self._out.append(round(ago, 6) if ago > -limit else "old")

    def _add_field(self, name: str, value: Any) -> None:
        if name in self._skipped:
            return
        if name in IDS:
            self._out.append(None if value is None else self._ids.setdefault(value, len(self._ids)))
        elif name in ID_KEYS and value.__class__ is dict:
            self._out.append(len(value))
            for key, it in value.items():
                self._out.append(self._ids.setdefault(key, len(self._ids)))
                self.add(it)
        else:
            self.add(value)

    def add_ids(self, waiting: dict[Any, tuple[Any, Any]]) -> None:
        """Requests that are waited for, by their ids, and until when."""
        self._out.append(len(waiting))
        for key, (_, until) in waiting.items():
            if key.__class__ is tuple:
                kind, key = key
                self._out.append(kind)
            self._out.append(self._ids.setdefault(key, len(self._ids)))
            self.add(until)

    def digest(self) -> bytes:
        out = self._out
        ranks = {it: n for n, it in enumerate(sorted({out[at] for at in self._versions}))}
        for at in self._versions:
            out[at] = ranks[out[at]]
        self._rank_stamps()
        self._rank_names()
        for places in (self._texts, self._uids):
            numbers: dict[str, int] = {}
            for at in places:
                out[at] = numbers.setdefault(out[at], len(numbers))
        return hashlib.blake2b(marshal.dumps(out, 2), digest_size=12).digest()

    def _rank_stamps(self) -> None:
        """Order, whether two are in one second, and how far ahead of now they are."""
        out, wall = self._out, round(self._wall * 1e6)
        ranks: dict[int, tuple[int, int, bool]] = {}
        before = 0
        for rank, stamp in enumerate(sorted({out[at] for at in self._stamps})):
            is_near = stamp // 1_000_000 == before // 1_000_000
            ranks[stamp] = (rank, max(stamp - wall, -1_500_000), is_near)
            before = stamp
        for at in self._stamps:
            out[at] = ranks[out[at]]

    def _rank_names(self) -> None:
        """Which process of its pod, of those that are known to anybody."""
        out = self._out
        numbers: dict[str, set[int]] = {}
        for at in self._names:
            pod, _, number = out[at].rpartition("_")
            numbers.setdefault(pod, set()).add(int(number))
        ranks = {
            f"{pod}_{number}": (pod, rank)
            for pod, known in numbers.items()
            for rank, number in enumerate(sorted(known))
        }
        for at in self._names:
            out[at] = ranks[out[at]]


_MICROS: dict[str, int] = {}


def micros(stamp: str) -> int:
    known = _MICROS.get(stamp)
    if known is None:
        seconds = wall_seconds(stamp) or 0.0
        known = _MICROS[stamp] = int(seconds) * 1_000_000 + int(stamp[20:26])
    return known


def _limits(thing: Any) -> dict[str, float]:
    """`OLD_AFTER` of an object, with what other fields of it say."""
    fields = thing.__dict__
    if thing.__class__ is LeaseWatch:
        limits = dict(OLD_AFTER)
        if fields["_heard_at"] >= fields["_watch_started_at"]:
            limits["_watch_started_at"] = STANDBY_RETRY
        if not fields["_reads"]:
            limits["_newest_at"] = SINCE
        return limits
    if thing.__class__ is ObservedLease and thing.holder:
        # It is set again before it is asked.
        return {**OLD_AFTER, "_vacant_at": NOW}
    return OLD_AFTER


def _order(thing: Any) -> str:
    return repr(thing)


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]
