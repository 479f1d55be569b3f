"""ObjectMeta: what a client may say of it, what the server keeps to itself.

Sources: apiserver pkg/registry/rest/{create,update,meta}.go, apimachinery
pkg/api/validation/objectmeta.go. Works in place on an object that was decoded. Guarantees: uid,
creationTimestamp, deletionTimestamp and generation are never taken from a client; managedFields
are not kept, since server-side apply is not offered.
"""

from collections.abc import Callable, Iterable

from tools.local_apiserver.core import names
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.unstructured import (
    Json,
    Object,
    is_equal,
    mapping,
    number,
    objects,
    text,
    texts,
)

# Names a rule for names: what is wrong, in words, "" if nothing is.
NameRule = Callable[[str], str]

# apiserver pkg/storage/names/generate.go: maxNameLength, randomLength
GENERATED_PREFIX_LIMIT = 58
SUFFIX_LENGTH = 5
# apimachinery pkg/util/rand: no vowels, nothing that looks like another character
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
# What a finalizer may be called without a domain (core/v1 and meta/v1 finalizer names).
_STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})
_OWNED_BY_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def of(obj: Object) -> Object:
    """The metadata of an object, which gets an empty one where it has none."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = {}
        obj["metadata"] = found
    return found


def begin(metadata: Object, *, uid: str, now: str) -> None:
    """A new object's; `now` as metav1.Time writes it."""
    for field in _OWNED_BY_SERVER:
        metadata.pop(field, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    _drop_repeated_owners(metadata)


def continue_from(metadata: Object, current: Object) -> None:
    """An update's: fields that a client may leave out are those of the current object."""
    for field in ("selfLink", "managedFields", "generation"):
        metadata.pop(field, None)
    metadata["creationTimestamp"] = current.get("creationTimestamp")
    for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        if field in current and not metadata.get(field):
            metadata[field] = current[field]
    _drop_repeated_owners(metadata)


def _drop_repeated_owners(metadata: Object) -> None:
    """rest.dedupOwnerReferences"""
    owners: list[Json] = []
    for owner in objects(metadata, "ownerReferences"):
        if not any(is_equal(owner, former) for former in owners):
            owners.append(owner)
    if owners:
        metadata["ownerReferences"] = owners


def generated_name(prefix: str, suffix: str) -> str:
    return prefix[:GENERATED_PREFIX_LIMIT] + suffix


def in_order(metadata: Object) -> Object:
    """As Go writes it, so that equal objects are equal bytes."""
    return {field: metadata[field] for field in _ORDER if field in metadata}


_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)


def check(metadata: Object, rule: NameRule, *, is_embedded: bool = False) -> list[FieldError]:
    """ValidateObjectMeta; `is_embedded`: of an object in another one, which may have no name."""
    found: list[FieldError] = []
    prefix, name = text(metadata, "generateName"), text(metadata, "name")
    # A prefix may end in a dash, as a name may not.
    if prefix and (said := rule(prefix[:-1] + "a" if prefix.endswith("-") else prefix)):
        found.append(field_errors.invalid("metadata.generateName", prefix, said))
    if not name:
        if not is_embedded:
            said = "name or generateName is required"
            found.append(field_errors.required("metadata.name", said))
    elif said := rule(name):
        found.append(field_errors.invalid("metadata.name", name, said))
    if (generation := number(metadata, "generation") or 0) < 0:
        said = "must be greater than or equal to 0"
        found.append(field_errors.invalid("metadata.generation", generation, said))
    found += check_labels(mapping(metadata, "labels"), "metadata.labels")
    found += _annotation_faults(metadata)
    found += _owner_faults(metadata)
    found += _finalizer_faults(metadata)
    return found


def check_standard_finalizers(metadata: Object) -> Iterable[FieldError]:
    """Of Kubernetes' core kinds: who is not Kubernetes has a domain
    (pkg/apis/core/validation/validation.go, ValidateFinalizerName)."""
    for index, finalizer in enumerate(texts(metadata, "finalizers")):
        is_bad = bool(names.qualified_name(finalizer))
        if not is_bad and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            said = "name is neither a standard finalizer name nor is it fully qualified"
            yield field_errors.invalid(f"metadata.finalizers[{index}]", finalizer, said)


def check_labels(labels: Object, path: str) -> Iterable[FieldError]:
    for key, value in labels.items():
        if said := names.qualified_name(key):
            yield field_errors.invalid(path, key, said)
        if isinstance(value, str) and (said := names.label_value(value)):
            yield field_errors.invalid(path, value, said)


def _annotation_faults(metadata: Object) -> Iterable[FieldError]:
    size = 0
    for key, value in mapping(metadata, "annotations").items():
        if said := names.qualified_name(key.lower()):
            yield field_errors.invalid("metadata.annotations", key, said)
        size += len(key.encode()) + len(str(value).encode())
    if size > names.ANNOTATIONS_LIMIT:
        yield field_errors.too_long("metadata.annotations", names.ANNOTATIONS_LIMIT)


def _owner_faults(metadata: Object) -> Iterable[FieldError]:
    controllers = []
    for owner in objects(metadata, "ownerReferences"):
        path = "metadata.ownerReferences"
        group, slash, version = text(owner, "apiVersion").rpartition("/")
        if not version or (slash and not group):
            said = "version must not be empty"
            yield field_errors.invalid(f"{path}.apiVersion", text(owner, "apiVersion"), said)
        for field in ("kind", "name", "uid"):
            if not text(owner, field):
                yield field_errors.invalid(f"{path}.{field}", "", f"{field} must not be empty")
        if (group, version, text(owner, "kind")) == ("", "v1", "Event"):
            said = "/v1, Kind=Event is disallowed from being an owner"
            yield field_errors.invalid(path, None, said)
        if owner.get("controller") is True:
            controllers.append(owner)
    if len(controllers) > 1:
        first, second = (text(owner, "name") for owner in controllers[:2])
        said = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{first} and {second}"
        )
        yield field_errors.invalid("metadata.ownerReferences", None, said)


def _finalizer_faults(metadata: Object) -> Iterable[FieldError]:
    finalizers = texts(metadata, "finalizers")
    for finalizer in finalizers:
        if said := names.qualified_name(finalizer):
            yield field_errors.invalid("metadata.finalizers", finalizer, said)
    if {ORPHAN, FOREGROUND} <= set(finalizers):
        said = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        yield field_errors.invalid("metadata.finalizers", list(finalizers), said)


def version_needed() -> FieldError:
    """What is wrong with an update that names no version, where its kind demands one."""
    return field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")


def check_update(metadata: Object, current: Object) -> list[FieldError]:
    """ValidateObjectMetaUpdate."""
    found: list[FieldError] = []
    if current.get("deletionTimestamp"):
        added = sorted(set(texts(metadata, "finalizers")) - set(texts(current, "finalizers")))
        if added:
            said = (
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers {field_errors.shown(list(added))}"
            )
            found.append(field_errors.forbidden("metadata.finalizers", said))
    for field in _IMMUTABLE:
        if not is_equal(metadata.get(field), current.get(field)):
            said = "field is immutable"
            found.append(field_errors.invalid(f"metadata.{field}", metadata.get(field), said))
    return found
