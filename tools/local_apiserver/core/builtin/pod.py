"""Pods, and the pod templates of workloads.

Sources: Kubernetes pkg/apis/core/v1/defaults.go,
pkg/registry/core/pod/strategy.go. The defaults are here that clients meet in practice; beyond its
type no pod is refused. No admission plugin runs: there are no service account volumes, priorities
or tolerations that nobody wrote.
"""

from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.unstructured import (
    Object,
    copied,
    mapping,
    objects,
    text,
)

_CONTAINERS = ("containers", "initContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
# core/v1: SecretVolumeSourceDefaultMode, and so on: 0644
_FILE_MODE = 0o644


def default_spec(spec: Object) -> None:
    """Of a pod or of a template, in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if account := text(spec, "serviceAccountName") or text(spec, "serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for field in _CONTAINERS:
        for container in objects(spec, field):
            _default_container(container)
    for volume in objects(spec, "volumes"):
        _default_volume(volume)


def _default_container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if image := text(container, "image"):
        tag = image.rpartition("/")[2].partition(":")[2]
        is_fixed = "@" in image or tag not in ("", "latest")
        container.setdefault("imagePullPolicy", "IfNotPresent" if is_fixed else "Always")
    _default_requests(mapping(container, "resources"))
    for name in _PROBES:
        if isinstance(probe := container.get(name), dict):
            for field, value in _PROBE_DEFAULTS.items():
                probe.setdefault(field, value)
            if isinstance(action := probe.get("httpGet"), dict):
                action.setdefault("path", "/")
                action.setdefault("scheme", "HTTP")
    for variable in objects(container, "env"):
        if isinstance(reference := mapping(variable, "valueFrom").get("fieldRef"), dict):
            reference.setdefault("apiVersion", "v1")


def _default_requests(resources: Object) -> None:
    """Who names only limits requests them."""
    limits = mapping(resources, "limits")
    if limits:
        requests = {**limits, **mapping(resources, "requests")}
        resources["requests"] = dict(sorted(requests.items()))


def _default_volume(volume: Object) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(found := volume.get(source), dict):
            found.setdefault("defaultMode", _FILE_MODE)
    if isinstance(found := volume.get("hostPath"), dict):
        found.setdefault("type", "")


def _default(obj: Object) -> None:
    spec = mapping(obj, "spec")
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)


def _prepare_create(obj: Object) -> None:
    obj["status"] = {"phase": "Pending", "qosClass": _qos_class(mapping(obj, "spec"))}


def _qos_class(spec: Object) -> str:
    """pkg/apis/core/v1/helper/qos: of cpu and memory only."""
    is_guaranteed, is_best_effort = True, True
    for field in _CONTAINERS:
        for container in objects(spec, field):
            limits = mapping(container, "resources", "limits")
            requests = mapping(container, "resources", "requests")
            for name in ("cpu", "memory"):
                is_best_effort &= name not in limits and name not in requests
                is_guaranteed &= name in limits and limits.get(name) == requests.get(name)
    if is_best_effort:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _prepare_status(obj: Object, current: Object) -> None:
    """podIP and podIPs tell the same (pkg/apis/core/v1/conversion.go)."""
    status = mapping(obj, "status")
    addresses = [text(one, "ip") for one in objects(status, "podIPs")]
    if address := text(status, "podIP"):
        if not addresses or addresses[0] != address:
            status["podIPs"] = [{"ip": address}]
    elif addresses:
        status["podIP"] = addresses[0]
    for field in ("phase", "qosClass"):
        if not text(status, field):
            status[field] = copied(mapping(current, "status").get(field))


POD = Strategy(
    counts_generation=True,
    is_deleted_gracefully=True,
    returns_deleted=True,
    default=_default,
    prepare_create=_prepare_create,
    prepare_status=_prepare_status,
)
