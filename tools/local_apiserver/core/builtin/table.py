"""The built-in resources that the API server serves, as discovery tells of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from edge_sidecars.apimachinery.resources import ResourceName
from tools.local_apiserver.core.api_resource import Resource, Strategy
from tools.local_apiserver.core.builtin.builtin_types import API, EXTENSIONS, builtin_type
from tools.local_apiserver.core.builtin.cluster import NAMESPACE, NODE
from tools.local_apiserver.core.builtin.configuration import (
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
)
from tools.local_apiserver.core.builtin.event import (
    EVENT,
    NEW_EVENT,
    to_core_group,
    to_events_group,
)
from tools.local_apiserver.core.builtin.lease import LEASE
from tools.local_apiserver.core.builtin.networking import ENDPOINT_SLICE, SERVICE
from tools.local_apiserver.core.builtin.pod import POD
from tools.local_apiserver.core.builtin.workloads import DEPLOYMENT, JOB, REPLICA_SET
from tools.local_apiserver.core.crd import DEFINITION

_EVENTS = ResourceName("", "v1", "events")


def builtin_resources() -> Sequence[Resource]:
    """All of them, in the order of discovery."""
    new_events = _resource(
        "events.k8s.io", f"{API}.events.v1", "Event", NEW_EVENT, short_names=("ev",)
    )
    return (
        _core("ConfigMap", CONFIG_MAP, short_names=("cm",)),
        _core("Event", EVENT, short_names=("ev",)),
        _core("Namespace", NAMESPACE, is_namespaced=False, has_status=True, short_names=("ns",)),
        _core("Node", NODE, is_namespaced=False, has_status=True, short_names=("no",)),
        _core("Pod", POD, has_status=True, short_names=("po",), categories=("all",)),
        _core("Secret", SECRET),
        _core("ServiceAccount", SERVICE_ACCOUNT, short_names=("sa",)),
        _core("Service", SERVICE, has_status=True, short_names=("svc",), categories=("all",)),
        _apps("Deployment", DEPLOYMENT, short_names=("deploy",)),
        _apps("ReplicaSet", REPLICA_SET, short_names=("rs",)),
        _resource("batch", f"{API}.batch.v1", "Job", JOB, has_status=True, categories=("all",)),
        _resource(
            "apiextensions.k8s.io",
            EXTENSIONS,
            "CustomResourceDefinition",
            DEFINITION,
            is_namespaced=False,
            has_status=True,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
        ),
        _resource("coordination.k8s.io", f"{API}.coordination.v1", "Lease", LEASE),
        _resource("discovery.k8s.io", f"{API}.discovery.v1", "EndpointSlice", ENDPOINT_SLICE),
        replace(new_events, storage=_EVENTS, convert=to_events_group, revert=to_core_group),
    )


def _resource(
    group: str,
    package: str,
    kind: str,
    strategy: Strategy,
    *,
    is_namespaced: bool = True,
    has_status: bool = False,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Resource:
    """`package` is that of the kind's type in OpenAPI. Each of these plurals is regular."""
    name = ResourceName(group, "v1", f"{kind.lower()}s")
    type_name = f"{package}.{kind}"
    return Resource(
        name=name,
        storage=name,
        kind=kind,
        list_kind=f"{kind}List",
        singular=kind.lower(),
        is_namespaced=is_namespaced,
        type_name=type_name,
        schema=builtin_type(type_name),
        has_status=has_status,
        short_names=short_names,
        categories=categories,
        strategy=strategy,
    )


_core = partial(_resource, "", f"{API}.core.v1")
_apps = partial(_resource, "apps", f"{API}.apps.v1", has_status=True, categories=("all",))
