"""How many objects are in which state, for people.

Owns one word for each object: the type of its last condition, with the stage where there is one.
Guarantees: no tree of an object is made for it. Does no I/O.
"""

import sys
from collections import Counter
from collections.abc import Mapping

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey

# Of an object about which nothing was decided yet, or whose kind has no conditions.
NO_STATE = "-"


class _Condition(msgspec.Struct):
    type: str = ""
    stage: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Object(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_OBJECT = msgspec.json.Decoder(_Object)


def state_of(document: Document) -> str:
    try:
        conditions = _OBJECT.decode(document.raw).status.conditions
    except msgspec.ValidationError:
        return NO_STATE
    if not conditions:
        return NO_STATE
    last = conditions[-1]
    return sys.intern(f"{last.stage} {last.type}".strip() or NO_STATE)


class StateCounts:
    def __init__(self) -> None:
        self._states: dict[ObjectKey, str] = {}

    def changed(self, before: Document | None, after: Document | None) -> None:
        if after is not None:
            self._states[after.key] = state_of(after)
        elif before is not None:
            self._states.pop(before.key, None)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """By kind and state."""
        return Counter((key.kind, state) for key, state in self._states.items())
