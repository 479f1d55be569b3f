"""From aggregated discovery (KEP-3352) to the documents that it aggregates, and back.

Owns: what client-go does with the one document (discovery/aggregated_discovery.go, v0.36), as the
bytes of the many, for clients that ask for those. Guarantees: what upstream would have answered,
but for `storageVersionHash`, which the aggregated form leaves out; nothing about a group version
that the aggregated form calls stale, for then it lists no resources of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import decode

# k8s.io/api/apidiscovery: v2 since Kubernetes 1.30, v2beta1 since 1.27.
AGGREGATED: Final = tuple(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


class _DiscoveryKind(Struct):
    kind: str = ""
    group: str = ""
    version: str = ""


class _DiscoverySubresource(Struct, rename="camel"):
    subresource: str
    response_kind: _DiscoveryKind | None = None
    verbs: list[str] | None = None


class _DiscoveryResource(Struct, rename="camel"):
    resource: str
    scope: str
    response_kind: _DiscoveryKind | None = None
    singular_resource: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None
    subresources: list[_DiscoverySubresource] | None = None


class _DiscoveryVersion(Struct):
    version: str
    resources: list[_DiscoveryResource] | None = None
    freshness: str = "Current"


class _DiscoveryMeta(Struct):
    name: str = ""


class _DiscoveryGroup(Struct):
    metadata: _DiscoveryMeta
    versions: list[_DiscoveryVersion] | None = None


class _DiscoveryGroupList(Struct):
    items: list[_DiscoveryGroup] | None = None


class _ApiResource(Struct, rename="camel", omit_defaults=True):
    """APIResource of meta/v1; defaults are what Go's omitempty leaves out."""

    name: str
    singular_name: str
    namespaced: bool
    kind: str
    verbs: list[str]
    group: str = ""
    version: str = ""
    short_names: list[str] = []
    categories: list[str] = []


class _GroupVersion(Struct, rename="camel"):
    group_version: str
    version: str


class _ApiGroup(Struct, rename="camel", omit_defaults=True):
    name: str
    versions: list[_GroupVersion]
    preferred_version: _GroupVersion
    kind: str = ""
    api_version: str = ""


class _ApiGroupList(Struct, rename="camel"):
    kind: str
    api_version: str
    groups: list[_ApiGroup]


class _ApiResourceList(Struct, rename="camel", omit_defaults=True):
    kind: str
    group_version: str
    resources: list[_ApiResource]
    api_version: str = ""


class _NamedGroup(Struct):
    versions: list[_GroupVersion] | None = None


class _NamedGroups(Struct):
    groups: list[_NamedGroup] | None = None


class _PlainResource(Struct, rename="camel"):
    name: str
    namespaced: bool = False
    kind: str = ""
    singular_name: str = ""
    group: str = ""
    version: str = ""
    verbs: list[str] = []
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _PlainList(Struct):
    resources: list[_PlainResource] | None = None


_PLAIN_LIST: Final = msgspec.json.Decoder(_PlainList)


def parts_of_core(aggregated: bytes) -> dict[str, bytes]:
    """By path: the resource lists below /api. Raises `Malformed`."""
    return {
        path: body
        for group in _groups(aggregated)
        for path, body in _resource_lists(group, "/api", is_core=True)
    }


def parts_of_groups(aggregated: bytes) -> dict[str, bytes]:
    """By path: /apis itself, its groups, and their resource lists. Raises `Malformed`."""
    found: dict[str, bytes] = {}
    groups = []
    for group in _groups(aggregated):
        entry = _api_group(group)
        if entry is None:
            continue
        groups.append(entry)
        path = f"/apis/{entry.name}"
        found[path] = _encoded(msgspec.structs.replace(entry, kind="APIGroup", api_version="v1"))
        found.update(_resource_lists(group, path, is_core=False))
    found["/apis"] = _encoded(_ApiGroupList("APIGroupList", "v1", groups))
    return found


def group_version_paths(group_list: bytes) -> list[str]:
    """Where the resource lists are, from the plain /apis. Raises `Malformed`."""
    groups = decode(msgspec.json.Decoder(_NamedGroups), group_list).groups or ()
    return [
        f"/apis/{version.group_version}" for group in groups for version in group.versions or ()
    ]


def named_versions(aggregated: bytes) -> dict[str, frozenset[str] | None]:
    """By group version, which resources it has; None where upstream cannot say that now. Raises
    `Malformed`."""
    found: dict[str, frozenset[str] | None] = {}
    for group in _groups(aggregated):
        for version in group.versions or ():
            name = f"{group.metadata.name}/{version.version}".removeprefix("/")
            is_current = version.freshness == "Current"
            names = frozenset(one.resource for one in version.resources or ())
            found[name] = names if is_current else None
    return found


def names_of_list(resource_list: bytes) -> frozenset[str]:
    """The resources that a plain list has, without subresources. Raises `Malformed`."""
    listed = decode(_PLAIN_LIST, resource_list)
    return frozenset(one.name.partition("/")[0] for one in listed.resources or ())


def with_lists(aggregated: bytes, lists: Mapping[str, bytes]) -> bytes:
    """The aggregated document as it is once it knows these plain lists of resources, by group
    version. Raises `Malformed`."""
    document = decode(msgspec.json.Decoder(dict[str, Any]), aggregated)
    groups: list[dict[str, Any]] = document.get("items") or []
    for group_version, plain in lists.items():
        name, _, version = group_version.rpartition("/")
        listed = decode(_PLAIN_LIST, plain)
        entry = {
            "version": version,
            "resources": _discovery_resources(listed.resources or [], (name, version)),
            "freshness": "Current",
        }
        group = next((it for it in groups if it["metadata"].get("name", "") == name), None)
        if group is None:
            group = {"metadata": {"name": name, "creationTimestamp": None}, "versions": []}
            groups.append(group)
        versions: list[dict[str, Any]] = group.get("versions") or []
        at = next((at for at, it in enumerate(versions) if it["version"] == version), None)
        if at is None:
            versions.append(entry)
        else:
            versions[at] = entry
        group["versions"] = versions
    return msgspec.json.encode({**document, "items": groups}) + b"\n"


def _discovery_resources(
    listed: Iterable[_PlainResource], own: tuple[str, str]
) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in listed:
        name, _, subresource = one.name.partition("/")
        group, version = (one.group, one.version) if one.version else own
        kind = {"group": group, "version": version, "kind": one.kind}
        scope = "Namespaced" if one.namespaced else "Cluster"
        entry = found.setdefault(name, {"resource": name, "scope": scope})
        if subresource:
            about = {"subresource": subresource, "responseKind": kind, "verbs": one.verbs}
            entry.setdefault("subresources", []).append(about)
            continue
        entry |= {"responseKind": kind, "singularResource": one.singular_name, "verbs": one.verbs}
        entry |= {"shortNames": one.short_names} if one.short_names else {}
        entry |= {"categories": one.categories} if one.categories else {}
    return list(found.values())


def _groups(aggregated: bytes) -> list[_DiscoveryGroup]:
    return decode(msgspec.json.Decoder(_DiscoveryGroupList), aggregated).items or []


def _api_group(group: _DiscoveryGroup) -> _ApiGroup | None:
    name = group.metadata.name
    versions = [
        _GroupVersion(f"{name}/{version.version}", version.version)
        for version in group.versions or ()
    ]
    # The first is the preferred one (KEP-3352).
    return _ApiGroup(name, versions, versions[0]) if name and versions else None


def _resource_lists(
    group: _DiscoveryGroup, folder: str, *, is_core: bool
) -> Iterator[tuple[str, bytes]]:
    for version in group.versions or ():
        if version.freshness != "Current":
            continue
        name = version.version if is_core else f"{group.metadata.name}/{version.version}"
        own = ("" if is_core else group.metadata.name, version.version)
        resources = [entry for one in version.resources or () for entry in _api_resources(one, own)]
        # kube-apiserver leaves the apiVersion out where it always has.
        listed = _ApiResourceList("APIResourceList", name, resources, "" if is_core else "v1")
        yield f"{folder}/{version.version}", _encoded(listed)


def _api_resources(resource: _DiscoveryResource, own: tuple[str, str]) -> Iterator[_ApiResource]:
    """`own`: the group and version of the list."""
    is_namespaced = resource.scope == "Namespaced"
    kind = resource.response_kind
    if kind is not None and kind.kind:
        yield _ApiResource(
            resource.resource,
            resource.singular_resource,
            is_namespaced,
            kind.kind,
            resource.verbs or [],
            *_foreign(kind, own),
            resource.short_names or [],
            resource.categories or [],
        )
    for one in resource.subresources or ():
        kind = one.response_kind or _DiscoveryKind()
        name = f"{resource.resource}/{one.subresource}"
        yield _ApiResource(
            name, "", is_namespaced, kind.kind, one.verbs or [], *_foreign(kind, own)
        )


def _foreign(kind: _DiscoveryKind, own: tuple[str, str]) -> tuple[str, str]:
    """Group and version where they differ: custom resources name theirs, yet always the same."""
    entry = (kind.group, kind.version)
    return ("", "") if entry == own else entry


def _encoded(document: Struct) -> bytes:
    return msgspec.json.encode(document) + b"\n"
