"""Which shards this process owns, and until when, from the documents of its elector. Pure.

    owned, not worked on --changes--> held --changes--> stopping --stopped--> not held
                                                                  (confirmed where handed over)

Owns which shards the main works on (held) and which it is about to leave (stopping). Guarantees:
Those of `proof`. A shard is owned only while the newest document has it and its proof holds, and
not between its loss and the end of the main's work on it. Another fencing token is a loss and a
gain. A hand-over is confirmed only when the main does not work on the shard. Times are seconds on
CLOCK_BOOTTIME, and come in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeGuard

from edge_sidecars.apimachinery.selection.shard_ranges import (
    MAX_SHARDS,
    MIN_SHARDS,
    shard_bounds,
    shard_of,
    shard_range,
)
from edge_sidecars.leader_client.proof import (
    NotAnElectorDocument,
    Proof,
    number,
    remaining_seconds,
    text,
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `of` equal ranges of the hash. `token`: its fencing token, of this ownership."""

    number: int
    of: int
    token: str

    @property
    def range(self) -> tuple[int, int]:
        """Half-open: the last one ends at 2^64."""
        return shard_bounds(self.number, self.of)

    def covers(self, uid: str) -> bool:
        return shard_of(uid, self.of) == self.number


@dataclass(frozen=True, slots=True)
class ShardsMember:
    """`owned`: how many shards."""

    identity: str
    pod: str
    owned: int
    is_settled: bool


@dataclass(frozen=True, slots=True)
class ShardsDocument:
    """The fields of `GET /shards` that a main needs. `unowned`: how many shards have no owner."""

    shards: int
    owned: tuple[Shard, ...]
    handing_over: tuple[Shard, ...]
    selector: str | None
    remaining: float
    valid_until: float | None
    identity: str
    members: tuple[ShardsMember, ...]
    unowned: int
    reason: str

    @classmethod
    def parse(cls, document: Mapping[str, object]) -> Self:
        """Raises `NotAnElectorDocument`."""
        shards = document.get("shards")
        if not _is_whole(shards) or not MIN_SHARDS <= shards <= MAX_SHARDS:
            raise NotAnElectorDocument(f"shards is {shards!r:.80}")
        owned = _shards(document, "owned", shards)
        remaining = document.get("remainingSeconds")
        selector, unowned = document.get("selector"), document.get("unowned")
        return cls(
            shards=shards,
            owned=owned,
            handing_over=_shards(document, "handingOver", shards),
            selector=selector if isinstance(selector, str) else None,
            remaining=remaining_seconds(remaining) if owned else number(remaining) or 0.0,
            valid_until=number(document.get("validUntil")),
            identity=text(document.get("identity")),
            members=tuple(map(_member, _objects(document, "members"))),
            unowned=unowned if _is_whole(unowned) else 0,
            reason=text(document.get("reason")),
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """What the main is to stop to work on, and what it may begin to."""

    lost: tuple[Shard, ...]
    gained: tuple[Shard, ...]


class ShardClaims:
    """Built up by `heard`, and `asked` of its `proof`; what is owned is a function of now."""

    def __init__(self) -> None:
        self.document: ShardsDocument | None = None
        self.proof = Proof()
        self._owned: dict[int, Shard] = {}
        self._held: dict[int, Shard] = {}
        self._stopping: dict[int, Shard] = {}
        self._confirmed: set[Shard] = set()

    def heard(self, document: ShardsDocument, now: float) -> None:
        self.document = document
        self._owned = {it.number: it for it in document.owned}
        proven = document.remaining if document.owned else None
        self.proof.heard(proven, document.valid_until, now=now)
        self._confirmed &= set(document.handing_over)

    def owned(self, now: float) -> Mapping[int, Shard]:
        """By number; without those that the main is still stopping to work on."""
        if now >= self.proof.deadline:
            return {}
        return {number: it for number, it in self._owned.items() if number not in self._stopping}

    def owns(self, number: int, now: float) -> bool:
        is_held = number in self._owned and number not in self._stopping
        return is_held and now < self.proof.deadline

    def owner_of(self, uid: str, now: float) -> Shard | None:
        """The shard of the object, where it is owned."""
        if self.document is None or now >= self.proof.deadline:
            return None
        number = shard_of(uid, self.document.shards)
        return None if number in self._stopping else self._owned.get(number)

    @property
    def is_idle(self) -> bool:
        """Whether the main works on nothing."""
        return not self._held and not self._stopping

    def changes(self, now: float, *, has_resigned: bool = False) -> Changes:
        """Since the last call."""
        owned = {} if has_resigned else self.owned(now)
        lost = tuple(it for it in self._held.values() if owned.get(it.number) != it)
        for shard in lost:
            self._stopping[shard.number] = self._held.pop(shard.number)
        gained = tuple(
            it
            for number, it in owned.items()
            if number not in self._held and number not in self._stopping
        )
        self._held |= {it.number: it for it in gained}
        return Changes(lost, gained)

    def stopped(self, shards: Iterable[Shard]) -> None:
        """The main works on these no longer."""
        for shard in shards:
            self._stopping.pop(shard.number, None)

    def to_confirm(self) -> tuple[Shard, ...]:
        """What is being handed over and not worked on; each once, until `unconfirmed`."""
        handing_over = () if self.document is None else self.document.handing_over
        found = tuple(
            it
            for it in handing_over
            if it not in self._confirmed
            and it.number not in self._stopping
            and it.number not in self._held
        )
        self._confirmed.update(found)
        return found

    def unconfirmed(self, shard: Shard) -> None:
        """The elector did not hear: once more, with its next document."""
        self._confirmed.discard(shard)


def _shards(document: Mapping[str, object], key: str, shards: int) -> tuple[Shard, ...]:
    found = []
    for entry in _objects(document, key):
        it, token = entry.get("shard"), entry.get("fencingToken")
        if not _is_whole(it) or not 0 <= it < shards:
            raise NotAnElectorDocument(f"a shard of {key} is {it!r:.80}")
        if not isinstance(token, str | int) or not str(token):
            raise NotAnElectorDocument(f"the fencingToken of shard {it} is {token!r:.80}")
        shard = Shard(it, shards, str(token))
        if entry.get("range") != list(shard_range(it, shards)):
            raise NotAnElectorDocument(f"the range of shard {it} is {entry.get('range')!r:.80}")
        found.append(shard)
    return tuple(found)


def _member(entry: Mapping[str, object]) -> ShardsMember:
    owned = entry.get("owned")
    return ShardsMember(
        identity=text(entry.get("identity")),
        pod=text(entry.get("pod")),
        owned=owned if _is_whole(owned) else 0,
        is_settled=entry.get("settled") is True,
    )


def _objects(document: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """Raises `NotAnElectorDocument`."""
    listed = document.get(key)
    if not isinstance(listed, list) or not all(isinstance(it, dict) for it in listed):
        raise NotAnElectorDocument(f"{key} is {listed!r:.80}")
    return listed


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
