"""Copies of a core, as cheap as Python makes them.

Immutable parts (numbers, texts, tuples, functions, frozen dataclasses, enums) are shared; objects,
dicts, lists and sets are copied, each once, so that a copy has the same inner references. Bound
methods that a mutant has put into a field are bound to the copy.
"""

import enum
from dataclasses import is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeVar

from tools.explore.actors.moment import Moment

T = TypeVar("T")

_SHARED: set[type] = {
    Moment,
    float,
    int,
    str,
    bool,
    bytes,
    type(None),
    tuple,
    frozenset,
    FunctionType,
    BuiltinFunctionType,
}
_COPIED: set[type] = set()


def clone(thing: T) -> T:
    copied: T = _clone(thing, {})
    return copied


def is_shared(kind: type) -> bool:
    """Whether objects of this class never change."""
    if kind in _SHARED:
        return True
    if kind in _COPIED:
        return False
    is_frozen = is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    (_SHARED if is_frozen or issubclass(kind, enum.Enum | type) else _COPIED).add(kind)
    return kind in _SHARED


def _clone(thing: Any, memo: dict[int, Any]) -> Any:
    kind = thing.__class__
    if kind in _SHARED:
        return thing
    key = id(thing)
    known = memo.get(key)
    if known is not None:
        return known
    if kind is dict:
        copied: Any = {}
        memo[key] = copied
        for name, value in thing.items():
            copied[name] = value if value.__class__ in _SHARED else _clone(value, memo)
        return copied
    if kind is list:
        copied = memo[key] = []
        copied += [it if it.__class__ in _SHARED else _clone(it, memo) for it in thing]
        return copied
    if kind is set:
        copied = memo[key] = set(thing)  # of immutable things
        return copied
    if kind is MethodType:
        return MethodType(thing.__func__, _clone(thing.__self__, memo))
    if is_shared(kind):
        return thing
    copied = memo[key] = kind.__new__(kind)
    fields = copied.__dict__
    for name, value in thing.__dict__.items():
        fields[name] = value if value.__class__ in _SHARED else _clone(value, memo)
    return copied
