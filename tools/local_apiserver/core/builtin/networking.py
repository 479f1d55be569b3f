"""Service and EndpointSlice: stored and checked; no address is given to a Service.

Sources: Kubernetes pkg/apis/core/validation/validation.go (ValidateService),
pkg/apis/core/v1/defaults.go, pkg/apis/discovery/validation/validation.go.
"""

import ipaddress
from collections.abc import Iterable, Sequence

from tools.local_apiserver.core import names
from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.builtin.pod import name_faults
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.unstructured import (
    Object,
    items,
    mapping,
    objects,
    strings,
    text,
    texts,
)

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PORT = "must be between 1 and 65535, inclusive"
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
# discovery validation: maxEndpoints, maxAddresses, maxPorts
_ENDPOINTS_LIMIT, _ADDRESSES_LIMIT, _PORTS_LIMIT = 1000, 100, 20000


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


def _check_service(obj: Object) -> Sequence[FieldError]:
    return list(_service_faults(mapping(obj, "spec")))


def _service_faults(spec: Object) -> Iterable[FieldError]:
    kind, ports = text(spec, "type"), list(objects(spec, "ports"))
    if not ports and kind != "ExternalName" and text(spec, "clusterIP") != "None":
        yield field_errors.required("spec.ports")
    seen: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port_faults(port, f"spec.ports[{index}]", seen, is_named=len(ports) > 1)
    if kind not in _TYPES:
        yield field_errors.not_supported("spec.type", kind, _TYPES)
    if kind == "ExternalName" and not text(spec, "externalName"):
        yield field_errors.required("spec.externalName")
    if text(spec, "sessionAffinity") not in ("ClientIP", "None"):
        supported = ("ClientIP", "None")
        found = text(spec, "sessionAffinity")
        yield field_errors.not_supported("spec.sessionAffinity", found, supported)


def _port_faults(
    port: Object, path: str, seen: set[str], *, is_named: bool
) -> Iterable[FieldError]:
    yield from name_faults(port, path, seen, is_required=is_named)
    for field in ("port", "targetPort"):
        value = port.get(field, 0)
        if isinstance(value, int) and not 0 < value < 65536:
            yield field_errors.invalid(f"{path}.{field}", value, _PORT)


def _keep_address(obj: Object, current: Object) -> None:
    """Who does not name the address keeps it (patchAllocatedValues)."""
    spec, former = mapping(obj, "spec"), mapping(current, "spec")
    if text(spec, "type") == text(former, "type"):
        for field in ("clusterIP", "clusterIPs"):
            if field in former and field not in spec:
                spec[field] = former[field]


def _check_service_update(obj: Object, current: Object) -> Sequence[FieldError]:
    address, former = text(obj, "spec", "clusterIP"), text(current, "spec", "clusterIP")
    if former and address != former and text(obj, "spec", "type") != "ExternalName":
        said = "may not change once set"
        return [field_errors.invalid("spec.clusterIPs[0]", strings([address]), said)]
    return ()


def _default_slice(obj: Object) -> None:
    for port in objects(obj, "ports"):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _check_slice(obj: Object) -> Sequence[FieldError]:
    return list(_slice_faults(obj))


def _slice_faults(obj: Object) -> Iterable[FieldError]:
    kind = text(obj, "addressType")
    if not kind:
        yield field_errors.required("addressType")
    elif kind not in _ADDRESS_TYPES:
        yield field_errors.not_supported("addressType", kind, _ADDRESS_TYPES)
    endpoints = list(objects(obj, "endpoints"))
    if len(endpoints) > _ENDPOINTS_LIMIT:
        yield field_errors.too_many("endpoints", len(endpoints), _ENDPOINTS_LIMIT)
    for index, endpoint in enumerate(endpoints):
        yield from _endpoint_faults(endpoint, f"endpoints[{index}]", kind)
    if len(items(obj, "ports")) > _PORTS_LIMIT:
        yield field_errors.too_many("ports", len(items(obj, "ports")), _PORTS_LIMIT)


def _endpoint_faults(endpoint: Object, path: str, kind: str) -> Iterable[FieldError]:
    addresses = texts(endpoint, "addresses")
    if not addresses:
        yield field_errors.required(f"{path}.addresses", "must contain at least 1 address")
    if len(addresses) > _ADDRESSES_LIMIT:
        yield field_errors.too_many(f"{path}.addresses", len(addresses), _ADDRESSES_LIMIT)
    for address in addresses:
        if said := _address_fault(address, kind):
            yield field_errors.invalid(f"{path}.addresses", address, said)


def _address_fault(address: str, kind: str) -> str:
    match kind:
        case "FQDN":
            return names.dns_subdomain(address)
        case "IPv4" | "IPv6":
            try:
                found = ipaddress.ip_address(address)
            except ValueError:
                return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            return "" if kind == f"IPv{found.version}" else f"must be an {kind} address"
        case _:
            return ""


def _check_slice_update(obj: Object, current: Object) -> Sequence[FieldError]:
    kind = text(obj, "addressType")
    if kind != text(current, "addressType"):
        return [field_errors.invalid("addressType", kind, "field is immutable")]
    return ()


SERVICE = Strategy(
    name_rule=names.dns_label,
    allows_create_on_update=True,
    returns_deleted=True,
    default=_default_service,
    prepare_create=_begin_service,
    prepare_update=_keep_address,
    check=_check_service,
    check_update=_check_service_update,
)
ENDPOINT_SLICE = Strategy(
    counts_generation=True,
    default=_default_slice,
    check=_check_slice,
    check_update=_check_slice_update,
)
