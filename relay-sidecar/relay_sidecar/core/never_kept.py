"""Of which resources nothing is ever kept: neither learned, followed, persisted nor answered from
what was kept before. Pure.
"""

from typing import Final

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
