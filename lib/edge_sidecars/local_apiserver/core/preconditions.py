"""On what a write is conditional: the name in the path, the uid and the version that it names.

Source: apiserver pkg/endpoints/handlers/update.go, pkg/registry/generic/registry/store.go. What is
checked is raised as Refused.
"""

from edge_sidecars.local_apiserver.core import api_errors, server_metadata
from edge_sidecars.local_apiserver.core.api_resource import Resource
from edge_sidecars.local_apiserver.core.unstructured import Object, text


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
