"""Which service accounts are those of components that a node needs in order to have pods at all.

What these read is kept as what kubelet reads is: a node that reboots while it is cut off has no
network and no names without it. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from edge_sidecars.apimachinery.resources import ResourceName

_NODES = ResourceName("", "v1", "nodes")
_SERVICES = ResourceName("", "v1", "services")
_NAMESPACES = ResourceName("", "v1", "namespaces")
_SLICES = ResourceName("discovery.k8s.io", "v1", "endpointslices")
_OF_PROXY: Final = (_SERVICES, _SLICES, _NODES)
_OF_DNS: Final = (_SERVICES, _SLICES, _NAMESPACES)

# By namespace and name: of kubeadm (kube-proxy, CoreDNS), of `manifests/overlays/node` (CoreDNS on
# each node), and of the usual CNI daemons as their own manifests name them; with what they follow
# that is neither a custom resource nor a matter of their settings.
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
