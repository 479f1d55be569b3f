"""What the node itself, or a component that it needs, listed or watched.

Reads of other callers do not take the place of these, in memory and on disk, also after a restart:
the owner persists what `on_change` reports. Bounded in number. Knows no stream.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from edge_sidecars.apimachinery.scope import ListScope

# Those that were asked for longest ago are forgotten.
MAX_SCOPES: Final = 1000
# Bytes of a scope (sys.getsizeof, rounded).
SCOPE_BYTES: Final = 1000
# The journal's `Blob`s of them, by the scope's text.
SPACE: Final = "node scopes"


class NodeScopes:
    """`scopes`: of an earlier run."""

    def __init__(self, scopes: Iterable[ListScope] = ()) -> None:
        self._scopes: OrderedDict[ListScope, None] = OrderedDict.fromkeys(scopes)
        # Called with each scope that is new, and with True; with those forgotten, and False.
        self.on_change: Callable[[ListScope, bool], None] = lambda scope, is_there: None

    def __iter__(self) -> Iterator[ListScope]:
        return iter(tuple(self._scopes))

    @property
    def size(self) -> int:
        """Bytes."""
        return SCOPE_BYTES * len(self._scopes)

    def add(self, scope: ListScope) -> None:
        is_new = scope not in self._scopes
        self._scopes[scope] = None
        self._scopes.move_to_end(scope)
        if is_new:
            self.on_change(scope, True)
        while len(self._scopes) > MAX_SCOPES:
            self.on_change(self._scopes.popitem(last=False)[0], False)

    def are_held_by(self, scope: ListScope) -> bool:
        """Whether a stream of `scope` is one of these, or one without selectors has some of it."""
        if scope in self._scopes:
            return True
        return not scope.params and any(map(scope.covers, self._scopes))
