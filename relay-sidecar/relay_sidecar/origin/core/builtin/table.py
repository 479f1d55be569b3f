"""The built-in resources that the origin serves, as discovery tells of them."""

from collections.abc import Sequence

from relay_sidecar.core.resource_name import ResourceName
from relay_sidecar.origin.core.builtin.cluster import NAMESPACE
from relay_sidecar.origin.core.builtin.configuration import CONFIG_MAP
from relay_sidecar.origin.core.builtin.lease import LEASE
from relay_sidecar.origin.core.builtin.types import API, builtin_type
from relay_sidecar.origin.core.resource import Resource, Strategy


def _resource(
    group: str,
    plural: str,
    kind: str,
    type_name: str,
    *,
    strategy: Strategy,
    is_namespaced: bool = True,
    has_status: bool = False,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Resource:
    name = ResourceName(group, "v1", plural)
    return Resource(
        name=name,
        storage=name,
        kind=kind,
        list_kind=f"{kind}List",
        singular=kind.lower(),
        is_namespaced=is_namespaced,
        schema=builtin_type(type_name),
        has_status=has_status,
        short_names=short_names,
        categories=categories,
        strategy=strategy,
    )


def builtin_resources() -> Sequence[Resource]:
    """All of them, in the order of discovery."""
    core = f"{API}.core.v1"
    return (
        _resource(
            "",
            "configmaps",
            "ConfigMap",
            f"{core}.ConfigMap",
            strategy=CONFIG_MAP,
            short_names=("cm",),
        ),
        _resource(
            "",
            "namespaces",
            "Namespace",
            f"{core}.Namespace",
            strategy=NAMESPACE,
            is_namespaced=False,
            has_status=True,
            short_names=("ns",),
        ),
        _resource(
            "coordination.k8s.io",
            "leases",
            "Lease",
            f"{API}.coordination.v1.Lease",
            strategy=LEASE,
        ),
    )
