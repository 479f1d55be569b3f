"""What is never cached, and how old an answer from the cache is: Age and Warning (RFC 9111).

Pure. `Staleness` serves both directions: what the relay answers from its cache, and what another
relay above it answered from its own. An answer with an Age is never one of now.
"""

from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Self

from edge_sidecars.apimachinery.resources import ResourceName

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


AGE: Final = "Age"
# Longest number of seconds that is read: 30 years.
_LONGEST: Final = 9


@dataclass(frozen=True, slots=True)
class Staleness:
    """`age` in seconds, None of an answer of now."""

    age: float | None = None

    @classmethod
    def told(cls, text: str | None) -> Self:
        """By an answer's header Age, None where it has none; 0 s where it cannot be read."""
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
