"""The built-in resources that the origin serves, as discovery tells of them."""

from collections.abc import Sequence
from dataclasses import replace

from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.local_apiserver.core.api_resource import Resource, Strategy
from edge_sidecars.local_apiserver.core.builtin.builtin_types import API, EXTENSIONS, builtin_type
from edge_sidecars.local_apiserver.core.builtin.cluster import NAMESPACE, NODE
from edge_sidecars.local_apiserver.core.builtin.configuration import (
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
)
from edge_sidecars.local_apiserver.core.builtin.event import (
    EVENT,
    NEW_EVENT,
    to_core_group,
    to_events_group,
)
from edge_sidecars.local_apiserver.core.builtin.lease import LEASE
from edge_sidecars.local_apiserver.core.builtin.networking import ENDPOINT_SLICE, SERVICE
from edge_sidecars.local_apiserver.core.builtin.pod import POD
from edge_sidecars.local_apiserver.core.builtin.workloads import DEPLOYMENT, JOB, REPLICA_SET
from edge_sidecars.local_apiserver.core.crd import DEFINITION

_EVENTS = ResourceName("", "v1", "events")


def builtin_resources() -> Sequence[Resource]:
    """All of them, in the order of discovery."""
    return (*_core_data(), *_core_running(), *_apps_and_batch(), *_others())


def _core_data() -> Sequence[Resource]:
    core = f"{API}.core.v1"
    return (
        _resource("", "configmaps", f"{core}.ConfigMap", CONFIG_MAP, short_names=("cm",)),
        _resource("", "events", f"{core}.Event", EVENT, short_names=("ev",)),
        _resource(
            "",
            "namespaces",
            f"{core}.Namespace",
            NAMESPACE,
            is_namespaced=False,
            has_status=True,
            short_names=("ns",),
        ),
        _resource(
            "",
            "nodes",
            f"{core}.Node",
            NODE,
            is_namespaced=False,
            has_status=True,
            short_names=("no",),
        ),
    )


def _core_running() -> Sequence[Resource]:
    core = f"{API}.core.v1"
    return (
        _resource(
            "",
            "pods",
            f"{core}.Pod",
            POD,
            has_status=True,
            short_names=("po",),
            categories=("all",),
        ),
        _resource("", "secrets", f"{core}.Secret", SECRET),
        _resource(
            "", "serviceaccounts", f"{core}.ServiceAccount", SERVICE_ACCOUNT, short_names=("sa",)
        ),
        _resource(
            "",
            "services",
            f"{core}.Service",
            SERVICE,
            has_status=True,
            short_names=("svc",),
            categories=("all",),
        ),
    )


def _apps_and_batch() -> Sequence[Resource]:
    return (
        _resource(
            "apps",
            "deployments",
            f"{API}.apps.v1.Deployment",
            DEPLOYMENT,
            has_status=True,
            short_names=("deploy",),
            categories=("all",),
        ),
        _resource(
            "apps",
            "replicasets",
            f"{API}.apps.v1.ReplicaSet",
            REPLICA_SET,
            has_status=True,
            short_names=("rs",),
            categories=("all",),
        ),
        _resource(
            "batch", "jobs", f"{API}.batch.v1.Job", JOB, has_status=True, categories=("all",)
        ),
    )


def _others() -> Sequence[Resource]:
    new_events = _resource(
        "events.k8s.io", "events", f"{API}.events.v1.Event", NEW_EVENT, short_names=("ev",)
    )
    return (
        _resource(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            f"{EXTENSIONS}.CustomResourceDefinition",
            DEFINITION,
            is_namespaced=False,
            has_status=True,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
        ),
        _resource("coordination.k8s.io", "leases", f"{API}.coordination.v1.Lease", LEASE),
        _resource(
            "discovery.k8s.io",
            "endpointslices",
            f"{API}.discovery.v1.EndpointSlice",
            ENDPOINT_SLICE,
        ),
        replace(new_events, storage=_EVENTS, convert=to_events_group, revert=to_core_group),
    )


def _resource(
    group: str,
    plural: str,
    type_name: str,
    strategy: Strategy,
    *,
    is_namespaced: bool = True,
    has_status: bool = False,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Resource:
    name = ResourceName(group, "v1", plural)
    kind = type_name.rpartition(".")[2]
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
