"""Which lists are worth a stream: those that are asked for again, not each that was asked once.

A client that lists by ever new selectors must not make the relay follow each of them upstream. The
answer of the first list is kept as it is; a second one of the same scope, within some minutes, is a
sign of a client that polls. Bounded in number. Knows no stream.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from edge_sidecars.apimachinery.scope import ListScope

# Scopes that are remembered; of a few hundred bytes each.
MOST: Final = 1000


class ScopesOfNode:
    """What the node itself, or a component that it needs, listed or watched: reads of other callers
    do not take its place. Of too many, those that were asked for longest ago are forgotten."""

    def __init__(self) -> None:
        self._scopes: OrderedDict[ListScope, None] = OrderedDict()

    def add(self, scope: ListScope) -> None:
        self._scopes[scope] = None
        self._scopes.move_to_end(scope)
        while len(self._scopes) > MOST:
            self._scopes.popitem(last=False)

    def are_held_by(self, scope: ListScope) -> bool:
        """Whether a stream of `scope` is one of these, or one without selectors has some of it."""
        if scope in self._scopes:
            return True
        return not scope.params and any(map(scope.covers, self._scopes))


class _Asking(Struct):
    at: float
    is_again: bool = False


class Askings:
    """`within`: seconds."""

    def __init__(self, within: float) -> None:
        self._within = within
        self._askings: OrderedDict[ListScope, _Asking] = OrderedDict()

    def asked(self, scope: ListScope, *, now: float) -> None:
        """A client began to list it."""
        before = self._askings.pop(scope, None)
        is_again = before is not None and now - before.at <= self._within
        self._askings[scope] = _Asking(now, is_again)
        while len(self._askings) > MOST:
            self._askings.popitem(last=False)

    def are_worth_a_stream(self, scope: ListScope) -> bool:
        """Whether it was asked for twice in a row, or is a whole namespace or more: what clients
        ask for first of all, and again while the link is cut."""
        asking = self._askings.get(scope)
        return not scope.params or (asking is not None and asking.is_again)
