"""Which lists are worth a stream: those that are asked for again, not each that was asked once.

A client that lists by ever new selectors must not make the relay follow each of them upstream. The
answer of the first list is kept as it is; a second one of the same scope, within some minutes, is a
sign of a client that polls. Bounded in number. Knows no stream.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from edge_sidecars.apimachinery.scope import ListScope

# Scopes that are remembered.
MOST: Final = 1000
# Bytes of each (sys.getsizeof, rounded).
SCOPE_BYTES: Final = 1000


class _Asking(Struct):
    at: float
    is_again: bool = False


class Askings:
    """`within`: seconds."""

    def __init__(self, within: float) -> None:
        self._within = within
        self._askings: OrderedDict[ListScope, _Asking] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes."""
        return SCOPE_BYTES * len(self._askings)

    def asked(self, scope: ListScope, *, now: float) -> None:
        """A client began to list it."""
        before = self._askings.pop(scope, None)
        is_again = before is not None and now - before.at <= self._within
        self._askings[scope] = _Asking(now, is_again)
        while len(self._askings) > MOST:
            self._askings.popitem(last=False)

    def is_new(self, scope: ListScope, *, now: float) -> bool:
        """No client has begun to list it lately."""
        before = self._askings.get(scope)
        return before is None or now - before.at > self._within

    def are_worth_a_stream(self, scope: ListScope) -> bool:
        """Whether it was asked for twice in a row, or is a whole namespace or more: what clients
        ask for first of all, and again while the link is cut."""
        asking = self._askings.get(scope)
        return not scope.params or (asking is not None and asking.is_again)
