"""Events, which are served by two groups from one storage.

Sources: Kubernetes pkg/apis/core/validation/events.go, pkg/apis/events/v1/conversion.go. Those of
the core group are kept; `to_events_group` and back lose nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.unstructured import Object, text

# kube-apiserver --event-ttl, seconds
EVENT_TTL = 3600.0
# core/validation/events.go
_REASON_LIMIT, _NOTE_LIMIT, _INSTANCE_LIMIT = 128, 1024, 128
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


def _check_core(obj: Object) -> Sequence[FieldError]:
    return list(_namespace_faults(obj, "involvedObject"))


def _namespace_faults(obj: Object, field: str) -> Iterable[FieldError]:
    about, own = text(obj, field, "namespace"), text(obj, "metadata", "namespace")
    if about != own and (about or own != "default"):
        if not about and field == "involvedObject" and not text(obj, "reportingComponent"):
            return
        said = "does not match event.namespace"
        yield field_errors.invalid("involvedObject.namespace", about, said)


def _check_new(obj: Object) -> Sequence[FieldError]:
    """Of events that are made by events.k8s.io; older ones are let through."""
    if obj.get("deprecatedFirstTimestamp"):
        return ()
    return list(_new_faults(obj))


def _new_faults(obj: Object) -> Iterable[FieldError]:
    yield from _namespace_faults(obj, "regarding")
    if (kind := text(obj, "type")) not in ("Normal", "Warning"):
        yield field_errors.invalid("type", kind, f"has invalid value: {kind}")
    if not text(obj, "eventTime"):
        yield field_errors.required("eventTime")
        return
    for field, shown, limit in (
        ("reportingController", "reportingController", 0),
        ("reportingInstance", "reportingInstance", _INSTANCE_LIMIT),
        ("action", "action", _REASON_LIMIT),
        ("reason", "reason", _REASON_LIMIT),
    ):
        found = text(obj, field)
        if not found:
            yield field_errors.required(shown)
        elif limit and len(found) > limit:
            yield field_errors.invalid(shown, found, f"can have at most {limit} characters")
    if len(text(obj, "note")) > _NOTE_LIMIT:
        yield field_errors.invalid("message", "", f"can have at most {_NOTE_LIMIT} characters")


EVENT = Strategy(allows_create_on_update=True, default=_default_core, check=_check_core)
NEW_EVENT = Strategy(allows_create_on_update=True, default=_default_new, check=_check_new)
