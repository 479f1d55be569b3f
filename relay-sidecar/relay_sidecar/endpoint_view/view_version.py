"""The resourceVersions of the endpoint view: v*2^24 + e.

v is upstream's: of the stream, or of an object; e counts what the view changed by itself since
upstream came to v.

    (v, 0) --(the view changes)--> (v, 1) --...--> (v, e) --(upstream moves)--> (v + 1, 0)

Guarantees: Versions only grow, over restarts too while what is persisted is there. The version with
which a process begins was given to no other state: where the state shown may have been another one,
e has moved on by `jump`. At `LAST` e grows no more.
"""

import json
from dataclasses import dataclass
from typing import Final, Self

SHIFT: Final = 24
LAST: Final = (1 << SHIFT) - 1
# Exclusive; how far e moves on at a start: by chance, so that what was lost from the disk is not
# met again.
MAX_JUMP: Final = 1 << 16


def view_version(v: int, e: int = 0) -> int:
    return (v << SHIFT) + e


@dataclass(frozen=True, slots=True)
class PersistedVersion:
    """`is_overlaid`: what was shown at this version or a later one was not upstream's state."""

    v: int
    e: int
    is_overlaid: bool

    def encode(self) -> bytes:
        return json.dumps({"v": self.v, "e": self.e, "isOverlaid": self.is_overlaid}).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self | None:
        """None for what is no such record."""
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            return None
        match found:
            case {"v": int(v), "e": int(e), "isOverlaid": bool(is_overlaid)} if 0 <= e <= LAST:
                return cls(v, e, is_overlaid)
        return None


class ViewVersion:
    """`v`, `e`: the present pair."""

    def __init__(self, v: int, e: int = 0) -> None:
        self.v = v
        self.e = e

    @classmethod
    def begin(cls, v: int, persisted: PersistedVersion | None, *, jump: int) -> Self:
        """With upstream's state at `v`; `jump`: from 1, below `MAX_JUMP`."""
        if persisted is None or persisted.v > v:
            return cls(v, jump)
        e = persisted.e if persisted.v == v else 0
        return cls(v, min(e + jump, LAST) if persisted.is_overlaid else e)

    @property
    def version(self) -> int:
        return view_version(self.v, self.e)

    @property
    def room(self) -> int:
        """How many changes of the view there may be until upstream moves."""
        return LAST - self.e

    def reached(self, v: int) -> None:
        """Upstream's state is that of `v` now."""
        if v > self.v:
            self.v, self.e = v, 0

    def upstream_changed(self, v: int) -> int:
        """The version of a change that upstream made at `v`; several may be at one (etcd ends all
        keys of a lease together)."""
        if v > self.v:
            self.v, self.e = v, 0
            return self.version
        return self.changed()

    def changed(self) -> int:
        """The version of one more change of the view."""
        self.e = min(self.e + 1, LAST)
        return self.version
