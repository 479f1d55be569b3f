"""What a write's request says besides the object: its options and its patch.

Owns: media types, dryRun and fieldValidation, and the refusals of what they should not be.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edge_sidecars.apimachinery.merge_patch import merge_objects
from edge_sidecars.apimachinery.status import Refused
from tools.local_apiserver.core import api_errors
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.body.json_patch import (
    BadPatch,
    Inapplicable,
    json_patch,
)
from tools.local_apiserver.core.body.object_reader import (
    FieldValidation,
    NotAnObject,
    parse,
)
from tools.local_apiserver.core.body.strategic_patch import (
    BadStrategicPatch,
    strategic_merge,
)
from tools.local_apiserver.core.deletion import dry_run_faults
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.unstructured import Json, Object, copied_object

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

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
        found.append(field_errors.not_supported("fieldValidation", asked, supported))
    if found:
        raise api_errors.invalid("meta.k8s.io", kind, "", found)
    return WriteOptions(bool(dry_run), FieldValidation(asked))


def check_media_type(content_type: str, accepted: Sequence[str]) -> str:
    """The media type without its parameters; none at all means JSON. Raises Refused."""
    found = content_type.partition(";")[0].strip().lower() or JSON
    if found not in accepted:
        raise api_errors.unsupported_media(accepted)
    return found


def sent_object(kind: str, body: bytes) -> Object:
    """The object of a POST or PUT; null is an empty one, as for Go. Raises Refused."""
    try:
        tree = parse(body)
    except NotAnObject as error:
        raise _unrecognized(kind, str(error)) from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise _unrecognized(kind, "json parse error: json: cannot unmarshal into Go value")
    return tree


def parsed_options(content_type: str, body: bytes) -> Json:
    """The body of a DELETE; None where there is none. Raises Refused."""
    if not body:
        return None
    check_media_type(content_type, (JSON,))
    try:
        return parse(body)
    except NotAnObject as error:
        raise api_errors.bad(f"couldn't get version/kind; {error}") from error


def _unrecognized(kind: str, why: str) -> Refused:
    return api_errors.bad(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get "
        f"version/kind; {why}"
    )


def patch_types(resource: Resource) -> Sequence[str]:
    """What may be sent, in the order in which a refusal names them. Server-side apply is not
    offered: nobody keeps who owns which field."""
    if resource.is_custom:
        return (JSON_PATCH, MERGE_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)


def patched(resource: Resource, current: Object, media_type: str, body: bytes) -> Object:
    """The object that a patch makes of the current one, which stays as it is. Raises Refused."""
    try:
        patch = parse(body)
    except NotAnObject as error:
        raise api_errors.bad(f"error decoding patch: {error}") from error
    try:
        if media_type == JSON_PATCH:
            return json_patch(current, patch)
        if not isinstance(patch, dict):
            raise BadPatch("json: cannot unmarshal into a map")
        if media_type == STRATEGIC_MERGE_PATCH:
            return strategic_merge(copied_object(current), patch, resource.schema)
        return merge_objects(copied_object(current), patch)
    except (BadPatch, BadStrategicPatch) as error:
        raise api_errors.bad(f"error decoding patch: {error}") from error
    except Inapplicable as error:
        raise api_errors.unprocessable_patch() from error


def bad_patch(said: str) -> Refused:
    """What a patch makes is no object of the resource: kube-apiserver blames the patch."""
    return api_errors.invalid("", "", "", [field_errors.invalid("patch", "", said)])
