"""Events, which are served by two groups from one storage.

Source: Kubernetes pkg/apis/events/v1/conversion.go. Those of the core group are kept;
`to_events_group` and back lose nothing.
"""

from collections.abc import Iterable, Mapping

from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.unstructured import Object

# kube-apiserver --event-ttl, seconds
EVENT_TTL = 3600.0
# The same field by its names in core/v1 and in events.k8s.io/v1.
_NAMES: Mapping[str, str] = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _NAMES.items()}
# Times that Go writes as null.
_TIMES = ("eventTime", "firstTimestamp", "lastTimestamp")
_NEW_TIMES = ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")


def to_events_group(obj: Object) -> Object:
    """A core/v1 Event as events.k8s.io/v1 shows it, which leaves out who is not named."""
    found = _renamed(obj, _NAMES)
    for field in ("reportingController", "reportingInstance"):
        if found.get(field) == "":
            del found[field]
    return found


def to_core_group(obj: Object) -> Object:
    """An events.k8s.io/v1 Event as core/v1 keeps it."""
    found = _renamed(obj, _BACK)
    _default_core(found)
    return found


def _renamed(obj: Object, names: Mapping[str, str]) -> Object:
    return {names.get(field, field): value for field, value in obj.items()}


def _write_times(obj: Object, fields: Iterable[str]) -> None:
    for field in fields:
        obj.setdefault(field, None)


def _default_core(obj: Object) -> None:
    _write_times(obj, _TIMES)
    obj.setdefault("source", {})
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")


def _default_new(obj: Object) -> None:
    _write_times(obj, _NEW_TIMES)
    obj.setdefault("deprecatedSource", {})


EVENT = Strategy(allows_create_on_update=True, default=_default_core)
NEW_EVENT = Strategy(allows_create_on_update=True, default=_default_new)
