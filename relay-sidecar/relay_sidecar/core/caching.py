"""What is never cached, what of the node is evicted last, and how old an answer from the cache is:
Age and Warning (RFC 9111).

Pure. `Staleness` serves both directions: what the relay answers from its cache, and what another
relay above it answered from its own. An answer with an Age is never one of now.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Self

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope

# A cached Lease breaks any elector; the others are questions about the caller. Of certificates only
# the signing requests: from an answer to one kubelet concludes that the API server is there, and
# then ends when its certificate has (pkg/kubelet/certificate/transport.go). What else the group has
# it follows for as long as it runs: trust bundles, and the certificates of its pods.
NEVER_KEPT: Final = frozenset(
    {
        "coordination.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificatesigningrequests.certificates.k8s.io",
    }
)


def may_be_kept(resource: ResourceName) -> bool:
    """Whether anything of it may be."""
    return is_keepable(resource.plural, resource.group)


def is_keepable(plural: str, group: str) -> bool:
    return group not in NEVER_KEPT and f"{plural}.{group}" not in NEVER_KEPT


# Those that were asked for longest ago are forgotten.
MAX_SCOPES: Final = 1000
# Bytes of a scope (sys.getsizeof, rounded).
SCOPE_BYTES: Final = 1000
# The journal's `Blob`s of them, by the scope's text.
NODE_SCOPES: Final = "node scopes"


class NodeScopes:
    """What the node itself, or a component that it needs, listed or watched: it is evicted last, in
    memory and on disk. The owner persists what `on_change` reports. `scopes`: of an earlier run."""

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


AGE: Final = "Age"
# Longest number of seconds that is read: 30 years.
_LONGEST: Final = 9


@dataclass(frozen=True, slots=True)
class Staleness:
    """`age` in seconds, None of an answer of now."""

    age: float | None = None

    @classmethod
    def read(cls, text: str | None) -> Self:
        """From an answer's header Age, None where it has none; 0 s where it cannot be read."""
        if text is None:
            return cls()
        is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST
        return cls(float(text) if is_number else 0.0)

    @classmethod
    def since(cls, confirmed_at: float, *, now: float) -> Self:
        """Of a state that upstream confirmed last then; both are wall times."""
        return cls(max(now - confirmed_at, 0.0))

    @property
    def is_old(self) -> bool:
        return self.age is not None

    @property
    def seconds(self) -> float:
        return self.age or 0.0

    def headers(self, *, now: float) -> dict[str, str]:
        """Of an answer that is sent now (wall time)."""
        if self.age is None:
            return {}
        since = formatdate(now - self.age, usegmt=True)
        why = f"upstream is out of reach, this is its state of {since}"
        return {
            AGE: str(int(self.age)),
            "Warning": f'299 relay-sidecar "{why}"',
        }


FRESH: Final = Staleness()
