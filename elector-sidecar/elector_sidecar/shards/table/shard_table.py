"""The table of shards: who owns which, as an annotation of the Lease that the members share.

Owns the JSON format, its digest, and the rule by which one table follows another. Pure. Guarantees:
what was edited by hand is not read as a table (`MalformedTable`); a table that is older than one
that is known, restored from a copy or written from older knowledge is not its successor.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from edge_sidecars.apimachinery.selection.shard_ranges import MAX_SHARDS, MIN_SHARDS
from edge_sidecars.runtime.formats.rfc1123 import is_subdomain
from elector_sidecar.core.timing import MAX_LEASE_DURATION

TABLE_ANNOTATION = "edge-sidecars.io/shards"
# What was found in its place and is no successor, for the author of the edit.
SET_ASIDE_ANNOTATION = "edge-sidecars.io/shards-set-aside"
MAX_SET_ASIDE = 4096
# On the table and on the Lease of each member; its value is the table's name.
ELECTION_LABEL = "edge-sidecars.io/election"
# The holder of a Lease that is a table: electors without --shards and client-go wait.
TABLE_HOLDER = "shards"
# Ten years, in seconds: candidates that go by the record wait, also where no member renews it.
TABLE_DURATION = 315_360_000
# Sequences from here on were edited; a member counts from 1.
MAX_SEQUENCE = 2**53
# Members that cannot read a format own nothing beside it: who introduces another one writes it only
# once the Lease of each member says that it reads it. That of this version says nothing.
FORMAT = 1


class MalformedTable(ValueError):
    """No table, or one that was changed by something else than a member; says what is wrong."""


class NewerTable(ValueError):
    """A whole table of a format that this version does not know; the message names it."""


@dataclass(frozen=True)
class TableVersion:
    """One version of the table in one Lease object."""

    uid: str
    sequence: int
    digest: str

    def is_at_least(self, other: "TableVersion") -> bool:
        """Whether it is `other`, or came after it in the same object."""
        return self.uid == other.uid and (self.sequence > other.sequence or self == other)


@dataclass(frozen=True)
class Owner:
    """One term of one member; `uid` is of its Lease, `lease_duration` in seconds."""

    identity: str
    term: int
    lease: str
    uid: str
    lease_duration: float


@dataclass(frozen=True)
class Table:
    """`owners[s]`: who owns shard s. `follows`: what the writer knew. `base`: the resourceVersion
    that it was written on, 0 where it created the Lease. `restored` counts how often the table was
    begun or written back, instead of changed by the rules."""

    sequence: int
    restored: int
    base: int
    follows: TableVersion | None
    owners: tuple[Owner | None, ...]

    @property
    def shards(self) -> int:
        return len(self.owners)

    def changed(self, known: TableVersion, owners: tuple[Owner | None, ...]) -> "Table":
        """The successor that is written where `known` is this table's version."""
        sequence = next_sequence(self.sequence)
        return replace(self, sequence=sequence, follows=known, owners=owners)


def next_sequence(*known: int) -> int:
    """Higher than all of them, but for one so high that it was edited."""
    return max((it for it in known if it + 1 < MAX_SEQUENCE), default=0) + 1


def is_next(known: TableVersion | None, seen_at: int, table: Table) -> bool:
    """Whether `table` was made of the known one, on exactly the resourceVersion at which that was
    seen: no copy of an older table is."""
    return (table.base, table.follows) == (seen_at, known)


def is_successor(known: TableVersion, table: Table, version: TableVersion) -> bool:
    """Whether `table` may replace the known one, where versions between them were missed: it is
    the same, or was derived from it or a later one."""
    if version.uid == known.uid and version.sequence <= known.sequence:
        return version == known
    return table.follows is not None and table.follows.is_at_least(known)


def encode(table: Table) -> str:
    """The annotation's text."""
    members = sorted({owner for owner in table.owners if owner}, key=lambda it: it.identity)
    places = {owner: place for place, owner in enumerate(members)}
    content: dict[str, Any] = {
        "format": FORMAT,
        "shards": table.shards,
        "sequence": table.sequence,
        "restored": table.restored,
        "base": table.base,
        "follows": None if table.follows is None else vars(table.follows),
        "members": [
            {
                "identity": it.identity,
                "term": it.term,
                "lease": it.lease,
                "uid": it.uid,
                "leaseDurationSeconds": int(it.lease_duration),
            }
            for it in members
        ],
        "owners": [None if owner is None else places[owner] for owner in table.owners],
    }
    return _text(content | {"digest": _digest(content)})


def decode(stored: str | None) -> tuple[Table, str]:
    """The table and its digest. Raises `MalformedTable`, `NewerTable`."""
    if stored is None:
        raise MalformedTable(f"the annotation {TABLE_ANNOTATION} is missing")
    try:
        content = json.loads(stored)
        digest = content.pop("digest")
        is_whole = digest == _digest(content)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise MalformedTable(f"{TABLE_ANNOTATION} is {stored!r:.80}: no table") from error
    if not is_whole:
        raise MalformedTable(f"{TABLE_ANNOTATION} was edited: its digest {digest!r:.40} is wrong")
    if content.get("format") != FORMAT:
        raise NewerTable(f"the table has format {content.get('format')!r:.20}, not {FORMAT}")
    try:
        return _table(content), digest
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise MalformedTable(f"{TABLE_ANNOTATION} is no table: {error!r:.120}") from error


def _table(content: dict[str, Any]) -> Table:
    members = [
        Owner(
            text(it["identity"]),
            whole(it["term"]),
            _name(it["lease"]),
            text(it["uid"]),
            _duration(it["leaseDurationSeconds"]),
        )
        for it in content["members"]
    ]
    owners = tuple(None if place is None else members[whole(place)] for place in content["owners"])
    if len(owners) != content["shards"] or not MIN_SHARDS <= len(owners) <= MAX_SHARDS:
        raise ValueError(f"{len(owners)} owners of {content['shards']!r:.20} shards")
    follows = content["follows"]
    return Table(
        sequence=_sequence(content["sequence"]),
        restored=_sequence(content["restored"]),
        base=whole(content["base"]),
        follows=None if follows is None else _version(follows),
        owners=owners,
    )


def _version(content: dict[str, Any]) -> TableVersion:
    return TableVersion(text(content["uid"]), whole(content["sequence"]), text(content["digest"]))


def _sequence(value: object) -> int:
    found = whole(value)
    if found >= MAX_SEQUENCE:
        raise ValueError(f"{found} is no sequence")
    return found


def _name(value: object) -> str:
    """Of a Lease: it becomes a path."""
    found = text(value)
    if not is_subdomain(found):
        raise ValueError(f"{found!r:.40} is no name of a Lease")
    return found


def _duration(value: object) -> float:
    seconds = whole(value)
    if not 0 < seconds <= MAX_LEASE_DURATION:
        raise ValueError(f"leaseDurationSeconds is {seconds}")
    return float(seconds)


def whole(value: object) -> int:
    """A count in JSON that somebody may have edited. Raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.20} is no count")
    return value


def text(value: object) -> str:
    """As `whole`, of a string."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.20} is no text")
    return value


def flag(value: object) -> bool:
    """As `whole`, of true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.20} is neither true nor false")
    return value


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def _digest(content: dict[str, Any]) -> str:
    """64 bits tell an edit from a table; nothing here is a secret."""
    return hashlib.sha256(_text(content).encode()).hexdigest()[:16]
