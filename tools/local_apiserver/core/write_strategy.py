"""What becomes of an object when it is created or updated.

Pure: the current object and the sent one come in, the new one comes out, or the Status that refuses
it. Order of the steps and words are kube-apiserver's (pkg/registry/generic/registry/store.go,
pkg/registry/rest/{create,update}.go, pkg/endpoints/handlers/update.go,
pkg/admission/plugin/namespace/lifecycle). The resourceVersion is left to whoever commits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.local_apiserver.core import api_errors, server_metadata
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.body.decoding import fill
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.schema.validation import validate
from tools.local_apiserver.core.unstructured import (
    Object,
    copied_object,
    is_equal,
    mapping,
    number,
    text,
)

_HEAD = ("kind", "apiVersion", "metadata")
# Of built-in resources: read by other means, or written by components that know better.
_UNJUDGED = (*_HEAD, "status")


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """What only the outside knows of a new object; `now` as metav1.Time writes it."""

    uid: str
    suffix: str
    now: str


def create(resource: Resource, sent: Object, *, namespace: str, birth: ServerMetadata) -> Object:
    """The new object. `sent` has been read by `reading.read`; it is used up."""
    meta = server_metadata.of(sent)
    _match_namespace(resource, meta, namespace)
    if text(meta, "resourceVersion"):
        raise api_errors.storage_error("resourceVersion should not be set on objects to be created")
    server_metadata.begin(meta, uid=birth.uid, now=birth.now)
    if text(meta, "generateName") and not text(meta, "name"):
        meta["name"] = server_metadata.generated_name(text(meta, "generateName"), birth.suffix)
    strategy = resource.strategy
    if resource.has_status and not strategy.keeps_first_status:
        sent.pop("status", None)
    if strategy.counts_generation:
        meta["generation"] = 1
    found = _body_faults(resource, sent)
    strategy.default(sent)
    strategy.prepare_create(sent)
    found += strategy.check(sent)
    _refuse(resource, sent, [*_meta_faults(resource, meta), *found])
    return _finished(resource, sent)


def update(resource: Resource, sent: Object, current: Object, *, namespace: str) -> Object:
    """The object after a PUT or a patch; equal to `current` where nothing changes.

    The version that `sent` names has been compared already. `sent` is used up.
    """
    meta, current_meta = server_metadata.of(sent), mapping(current, "metadata")
    _match_namespace(resource, meta, namespace)
    strategy = resource.strategy
    if resource.has_status:
        _keep(sent, current, "status")
    server_metadata.continue_from(meta, current_meta)
    found = _body_faults(resource, sent)
    strategy.default(sent)
    strategy.prepare_update(sent, current)
    if strategy.counts_generation and _is_body_changed(resource, sent, current):
        meta["generation"] = (number(current_meta, "generation") or 0) + 1
    found += strategy.check(sent)
    _refuse(
        resource,
        sent,
        [
            *_meta_faults(resource, meta),
            *server_metadata.check_update(meta, current_meta),
            *found,
            *strategy.check_update(sent, current),
        ],
    )
    return _finished(resource, sent)


def update_status(resource: Resource, sent: Object, current: Object, *, namespace: str) -> Object:
    """The object after a write to its status: of all that was sent only that is taken.

    Of a built-in resource, metadata is taken too, as kube-apiserver does (labels, annotations,
    finalizers); of a custom one it is not.
    """
    meta, current_meta = server_metadata.of(sent), mapping(current, "metadata")
    _match_namespace(resource, meta, namespace)
    server_metadata.continue_from(meta, current_meta)
    changed = copied_object(current)
    if "status" in sent:
        changed["status"] = sent["status"]
    else:
        changed.pop("status", None)
    if resource.is_custom:
        kept = copied_object(current_meta)
        kept["resourceVersion"] = meta.get("resourceVersion")
        meta = kept
    changed["metadata"] = meta
    resource.strategy.prepare_status(changed, current)
    found = _status_faults(resource, changed)
    _refuse(resource, changed, [*server_metadata.check_update(meta, current_meta), *found])
    return _finished(resource, changed)


def _match_namespace(resource: Resource, meta: Object, namespace: str) -> None:
    """rest.EnsureObjectNamespaceMatchesRequestNamespace"""
    sent = text(meta, "namespace")
    if not resource.is_namespaced:
        meta.pop("namespace", None)
    elif not sent:
        meta["namespace"] = namespace
    elif sent != namespace:
        raise api_errors.bad(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _keep(sent: Object, current: Object, field: str) -> None:
    if field in current:
        sent[field] = copied_object(current)[field]
    else:
        sent.pop(field, None)


def _is_body_changed(resource: Resource, sent: Object, current: Object) -> bool:
    if resource.strategy.counts_annotations:
        annotations = mapping(sent, "metadata", "annotations")
        if annotations != mapping(current, "metadata", "annotations"):
            return True
    ignored = {"metadata", "kind", "apiVersion"} | ({"status"} if resource.has_status else set())
    return not is_equal(
        {field: value for field, value in sent.items() if field not in ignored},
        {field: value for field, value in current.items() if field not in ignored},
    )


def _meta_faults(resource: Resource, meta: Object) -> list[FieldError]:
    found = server_metadata.check(meta, resource.strategy.name_rule)
    if resource.strategy.demands_standard_finalizers:
        found += server_metadata.check_standard_finalizers(meta)
    return found


def _body_faults(resource: Resource, obj: Object) -> list[FieldError]:
    """What the schema says; it does not judge the metadata. Of a built-in one only what was sent
    is judged, before the defaults: Go makes whole objects of nothing."""
    if resource.is_custom:
        return validate(obj, resource.schema, "")
    found = []
    for field, value in obj.items():
        schema = resource.schema.properties.get(field)
        if schema is not None and field not in _UNJUDGED:
            found += validate(value, schema, field)
    return found


def _status_faults(resource: Resource, obj: Object) -> list[FieldError]:
    schema = resource.schema.properties.get("status")
    if not resource.is_custom or schema is None or "status" not in obj:
        return []
    return validate(obj["status"], schema, "status")


def _refuse(resource: Resource, obj: Object, found: Sequence[FieldError]) -> None:
    if not found:
        return
    raise api_errors.invalid(
        resource.name.group, resource.kind, text(obj, "metadata", "name"), found
    )


def _finished(resource: Resource, obj: Object) -> Object:
    """In the order in which Kubernetes writes it, which also makes it quick to read in part."""
    if not resource.is_custom:
        fill(obj, resource.schema)
    written: Object = {
        "kind": resource.kind,
        "apiVersion": resource.name.api_version,
        "metadata": server_metadata.in_order(mapping(obj, "metadata")),
    }
    written.update((field, value) for field, value in obj.items() if field not in _HEAD)
    return written


# On what a write is conditional: its namespace, the name in the path, the uid and the version that
# it names. What is checked is raised as Refused.


def check_admits(namespace: Object | None, resource: Resource, *, name: str, of: str) -> None:
    """Whether an object may be created in the namespace called `of`."""
    if namespace is None:
        raise api_errors.missing("", "namespaces", of)
    if text(namespace, "metadata", "deletionTimestamp"):
        raise api_errors.terminating(resource.name.group, resource.name.plural, name, of)


def check_name(sent: Object, wanted: str) -> None:
    """`wanted` is the name in the path."""
    name = text(sent, "metadata", "name")
    if not name:
        raise api_errors.bad(
            f"the name of the object ({wanted} based on URL) was undeterminable: name must be "
            "provided"
        )
    if name != wanted:
        raise api_errors.bad(
            f"the name of the object ({name}) does not match the name on the URL ({wanted})"
        )


def check_uid(resource: Resource, meta: Object, current: Object) -> None:
    """A uid that is sent is a condition."""
    asked, found = text(meta, "uid"), text(current, "metadata", "uid")
    if asked and asked != found:
        name = resource.name
        why = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
        raise api_errors.conflict(name.group, name.plural, text(current, "metadata", "name"), why)


def check_version(resource: Resource, meta: Object, current: Object) -> None:
    """Optimistic concurrency; afterwards the version in `meta` is the current one."""
    group, plural = resource.name.group, resource.name.plural
    asked, found = text(meta, "resourceVersion"), text(current, "metadata", "resourceVersion")
    name = text(current, "metadata", "name")
    check_number(asked)
    if not asked or int(asked) == 0:
        if not resource.strategy.allows_unconditional_update:
            raise api_errors.invalid(group, plural, name, [server_metadata.version_needed()])
    elif asked != found:
        raise api_errors.conflict(group, plural, name)
    meta["resourceVersion"] = found


def check_number(version: str) -> None:
    if version and not (version.isascii() and version.isdecimal()):
        raise api_errors.storage_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
