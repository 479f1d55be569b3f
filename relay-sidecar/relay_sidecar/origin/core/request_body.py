"""What a write's request says besides the object: its options and its patch.

Owns: media types, dryRun and fieldValidation, and the refusals of what they should not be.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from relay_sidecar.core.status import Refused
from relay_sidecar.origin.core import faults, refusals
from relay_sidecar.origin.core.deletion import dry_run_faults
from relay_sidecar.origin.core.patching import (
    BadPatch,
    Inapplicable,
    json_patch,
    merge_patch,
)
from relay_sidecar.origin.core.reading import FieldValidation, NotAnObject, parse
from relay_sidecar.origin.core.resource import Resource
from relay_sidecar.origin.core.tree import Json, Object

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"

Query = Mapping[str, Sequence[str]]


class WriteOptions(NamedTuple):
    is_dry_run: bool
    validation: FieldValidation


def write_options(query: Query, kind: str) -> WriteOptions:
    """`kind` of the options, such as CreateOptions. Raises Refused."""
    dry_run = [value for value in query.get("dryRun", ()) if value]
    asked = next(iter(query.get("fieldValidation", ())), "") or FieldValidation.WARN
    found = dry_run_faults(dry_run)
    if asked not in tuple(FieldValidation):
        supported = ("", "Ignore", "Strict", "Warn")
        found.append(faults.not_supported("fieldValidation", asked, supported))
    if found:
        raise refusals.invalid("meta.k8s.io", kind, "", found)
    return WriteOptions(bool(dry_run), FieldValidation(asked))


def check_media_type(content_type: str, accepted: Sequence[str]) -> str:
    """The media type without its parameters; none at all means JSON. Raises Refused."""
    found = content_type.partition(";")[0].strip().lower() or JSON
    if found not in accepted:
        raise refusals.unsupported_media(accepted)
    return found


def sent_object(resource: Resource, body: bytes) -> Object:
    """The object of a POST or PUT. Raises Refused."""
    try:
        tree = parse(body)
    except NotAnObject as error:
        raise _unrecognized(resource, str(error)) from error
    if tree is None and not resource.is_custom:
        return {}
    if not isinstance(tree, dict):
        raise _unrecognized(resource, "json parse error: json: cannot unmarshal into Go value")
    return tree


def parsed_options(body: bytes) -> Json:
    """The body of a DELETE; None where there is none. Raises Refused."""
    try:
        return parse(body) if body else None
    except NotAnObject as error:
        raise refusals.bad(f"couldn't get version/kind; {error}") from error


def _unrecognized(resource: Resource, why: str) -> Refused:
    return refusals.bad(
        f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get "
        f"version/kind; {why}"
    )


def patch_types(resource: Resource) -> Sequence[str]:
    """What may be sent, in the order in which a refusal names them."""
    return (JSON_PATCH, MERGE_PATCH)


def patched(resource: Resource, current: Object, media_type: str, body: bytes) -> Object:
    """The object that a patch makes of the current one. Raises Refused."""
    try:
        patch = parse(body)
    except NotAnObject as error:
        raise refusals.bad(f"error decoding patch: {error}") from error
    if media_type == MERGE_PATCH:
        return _merged(current, patch)
    try:
        return json_patch(current, patch)
    except BadPatch as error:
        raise refusals.bad(f"error decoding patch: {error}") from error
    except Inapplicable as error:
        raise refusals.unprocessable_patch() from error


def _merged(current: Object, patch: Json) -> Object:
    if not isinstance(patch, dict):
        raise refusals.bad("error decoding patch: json: cannot unmarshal into a map")
    merged = merge_patch(current, patch)
    assert isinstance(merged, dict)
    return merged


def bad_patch(said: str) -> Refused:
    """What a patch makes is no object of the resource: kube-apiserver blames the patch."""
    return refusals.invalid("", "", "", [faults.invalid("patch", "", said)])
