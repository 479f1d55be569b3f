"""Which service accounts are those of components that a node needs in order to have pods at all.

What these read is kept as what kubelet reads is: a node that reboots while it is cut off has no
network and no names without it. Pure.
"""

from typing import Final

# By namespace and name: of kubeadm (kube-proxy, CoreDNS), of `manifests/overlays/node` (CoreDNS on
# each node), and of the usual CNI daemons as their own manifests name them.
_ACCOUNTS: Final = frozenset(
    {
        "kube-system:kube-proxy",
        "kube-system:coredns",
        "kube-system:coredns-node",
        "kube-system:flannel",
        "kube-flannel:flannel",
        "kube-system:calico-node",
        "calico-system:calico-node",
        "kube-system:canal",
        "kube-system:cilium",
        "kube-system:kindnet",
    }
)
_PREFIX: Final = "system:serviceaccount:"


def is_node_component(user: str) -> bool:
    """`user`: the name that upstream gives the caller."""
    return user.startswith(_PREFIX) and user.removeprefix(_PREFIX) in _ACCOUNTS
