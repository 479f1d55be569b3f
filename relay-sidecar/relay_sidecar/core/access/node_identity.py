"""Which callers are the node: its client certificate, and the components that it needs.

Pure. A relay on a node acts for that node alone: a caller with the node's own certificate shares
the relay's identity upstream, and gets nothing that it does not have. TLS has verified the signer,
the key and the usage clientAuth; the times are checked here, since a certificate may end while it
cannot be renewed. What the components read is cached as what kubelet reads is: a node that reboots
while it is offline has no network and no names without it.
"""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.status import Status, forbidden, unauthorized, unavailable

# The group of nodes: k8s.io/apiserver, pkg/authentication/user, NodesGroup.
NODES: Final = "system:nodes"
# The newest that upstream took: while kubelet renews, two are in use.
MAX_ACCEPTED: Final = 4


@dataclass(frozen=True, slots=True)
class CallerCertificate:
    """Times in seconds of the wall clock; `fingerprint`: SHA-256 of its DER. `is_ambiguous`: it has
    several common names, of which the API server takes the last one (crypto/x509/pkix) and others
    the first; `common_name` has all of them then."""

    common_name: str
    organizations: frozenset[str]
    not_before: float
    not_after: float
    fingerprint: bytes
    is_ambiguous: bool = False

    @classmethod
    def of(cls, decoded: Mapping[str, Any], fingerprint: bytes) -> "CallerCertificate":
        """`decoded`: as `ssl.SSLObject.getpeercert` has it."""
        names = [pair for part in decoded.get("subject", ()) for pair in part]
        common = [value for name, value in names if name == "commonName"]
        return cls(
            " and ".join(common),
            frozenset(value for name, value in names if name == "organizationName"),
            ssl.cert_time_to_seconds(decoded["notBefore"]),
            ssl.cert_time_to_seconds(decoded["notAfter"]),
            fingerprint,
            len(common) > 1,
        )


class NodeCertificates:
    """`own`: the common name of the relay's own identity upstream, like `system:node:e1`."""

    def __init__(self, own: str, accepted: Iterable[bytes] = ()) -> None:
        self.own = own
        # Fingerprints of certificates that upstream took, the newest last.
        self.accepted: list[bytes] = list(accepted)[-MAX_ACCEPTED:]

    def accept(self, fingerprint: bytes) -> bool:
        """Upstream took it. Returns whether that is news."""
        if fingerprint in self.accepted:
            return False
        self.accepted = [*self.accepted, fingerprint][-MAX_ACCEPTED:]
        return True

    def refusal(
        self, certificate: CallerCertificate, *, now: float, is_online: bool
    ) -> Status | None:
        """None: it acts with the relay's rights. `now`: wall clock, which may be wrong while
        upstream is out of reach; so a certificate that upstream took is good then, whatever its
        times say."""
        is_own = certificate.common_name == self.own and not certificate.is_ambiguous
        if not is_own or NODES not in certificate.organizations:
            whose = certificate.common_name or "nobody"
            why = f"the client certificate is of {whose}, and this relay acts for {self.own}"
            return forbidden("", why=why)
        if certificate.not_before <= now <= certificate.not_after:
            return None
        if is_online:
            return unauthorized()
        if certificate.fingerprint in self.accepted:
            return None
        return unavailable(
            "the client certificate is not valid by this machine's clock, and only the API "
            "server could say whether it was: it is out of reach"
        )


_NODES = ResourceName("", "v1", "nodes")
_SERVICES = ResourceName("", "v1", "services")
_NAMESPACES = ResourceName("", "v1", "namespaces")
_SLICES = ResourceName("discovery.k8s.io", "v1", "endpointslices")
_OF_PROXY: Final = (_SERVICES, _SLICES, _NODES)
_OF_DNS: Final = (_SERVICES, _SLICES, _NAMESPACES)

# By namespace and name: of kubeadm (kube-proxy, CoreDNS), of `manifests/overlays/node` (CoreDNS on
# each node), and of the usual CNI daemons as their own manifests name them. Each has what it
# follows that is neither a custom resource nor a matter of their settings.
_ACCOUNTS: Final[Mapping[str, Sequence[ResourceName]]] = {
    "kube-system:kube-proxy": _OF_PROXY,
    "kube-system:coredns": _OF_DNS,
    "kube-system:coredns-node": _OF_DNS,
    "kube-system:flannel": (_NODES,),
    "kube-flannel:flannel": (_NODES,),
    "kube-system:calico-node": (),
    "calico-system:calico-node": (),
    "kube-system:canal": (_NODES,),
    "kube-system:cilium": (),
    "kube-system:kindnet": (_NODES,),
}
_PREFIX: Final = "system:serviceaccount:"


def is_node_component(user: str) -> bool:
    """`user`: the name that upstream gives the caller."""
    return user.startswith(_PREFIX) and user.removeprefix(_PREFIX) in _ACCOUNTS


def resources_read_by(namespace: str, account: str) -> Sequence[ResourceName]:
    """What the component with this account follows in all namespaces; nothing of others."""
    return _ACCOUNTS.get(f"{namespace}:{account}", ())
