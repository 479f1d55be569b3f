"""At which version upstream held what a part of a stream holds.

A list of a namespace has the version of the whole of etcd, which a wider stream gets with the next
bookmark only: who got that list is not to see an older version when the wider stream answers for
upstream, nor to be refused the version that it has. Guarantee: a version is given only for the very
objects, at their versions, that upstream listed at it. Bounded: of the scopes that were listed
last. Knows no stream.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from edge_sidecars.apimachinery.scope import ListScope

MAX_SCOPES: Final = 1000
# Bytes of a scope with what is known of it (sys.getsizeof, rounded).
SCOPE_BYTES: Final = 1000


@dataclass(slots=True)
class _ListedState:
    """`compared`: with which objects of a stream, by their fingerprint, and whether its part was
    the same."""

    version: int
    fingerprint: int
    compared: tuple[int, bool] | None = None


class ListedStates:
    """Of all resources."""

    def __init__(self) -> None:
        self._states: OrderedDict[ListScope, _ListedState] = OrderedDict()
        # Called with each scope of which something else is known now.
        self.on_change: Callable[[ListScope], None] = lambda scope: None

    @property
    def size(self) -> int:
        """Bytes."""
        return SCOPE_BYTES * len(self._states)

    def listed(self, scope: ListScope, version: int, fingerprint: int) -> None:
        """Upstream held this at that version; `fingerprint` as `fingerprint_of` its items."""
        before = self._states.get(scope)
        if before is not None and before.version > version:
            return
        self._states[scope] = _ListedState(version, fingerprint)
        self._states.move_to_end(scope)
        self.on_change(scope)
        if len(self._states) > MAX_SCOPES:
            self.on_change(self._states.popitem(last=False)[0])

    def get(self, scope: ListScope) -> tuple[int, int] | None:
        """The version and the fingerprint that upstream's last list of it had."""
        state = self._states.get(scope)
        return None if state is None else (state.version, state.fingerprint)

    def version(
        self, scope: ListScope, version: int, *, whole: int, part: Callable[[], int]
    ) -> int:
        """The highest version at which upstream is known to have held what a stream holds of the
        scope, `version` at least. `whole` is the fingerprint of all that the stream holds, `part`
        makes that of the scope."""
        state = self._states.get(scope)
        if state is None or state.version <= version:
            return version
        if state.compared is None or state.compared[0] != whole:
            state.compared = (whole, part() == state.fingerprint)
        return state.version if state.compared[1] else version

    def went_back(self, resource: tuple[str, str], version: int) -> None:
        """What upstream held beyond `version` is of a lost history."""
        for scope, state in tuple(self._states.items()):
            if scope.resource.storage == resource and state.version > version:
                del self._states[scope]
                self.on_change(scope)
