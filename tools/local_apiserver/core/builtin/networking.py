"""Service and EndpointSlice: defaulted and stored; no address is given to a Service.

Sources: Kubernetes pkg/apis/{core,discovery}/v1/defaults.go.
"""

from tools.local_apiserver.core import names
from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.unstructured import (
    Object,
    mapping,
    objects,
    text,
)


def _default_service(obj: Object) -> None:
    spec = mapping(obj, "spec")
    kind = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in objects(spec, "ports"):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if address := text(spec, "clusterIP"):
            spec.setdefault("clusterIPs", [address])
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")


def _begin_service(obj: Object) -> None:
    obj["status"] = {"loadBalancer": {}}


def _keep_address(obj: Object, current: Object) -> None:
    """Who does not name the address keeps it (patchAllocatedValues)."""
    spec, former = mapping(obj, "spec"), mapping(current, "spec")
    if text(spec, "type") == text(former, "type"):
        for field in ("clusterIP", "clusterIPs"):
            if field in former and field not in spec:
                spec[field] = former[field]


def _default_slice(obj: Object) -> None:
    for port in objects(obj, "ports"):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


SERVICE = Strategy(
    name_rule=names.dns_label,
    allows_create_on_update=True,
    returns_deleted=True,
    default=_default_service,
    prepare_create=_begin_service,
    prepare_update=_keep_address,
)
ENDPOINT_SLICE = Strategy(
    counts_generation=True,
    default=_default_slice,
)
