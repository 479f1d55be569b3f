"""Discovery: which groups, versions and resources there are, in both of Kubernetes' forms.

Sources: apimachinery pkg/apis/meta/v1 (APIGroup, APIResourceList), k8s.io/api apidiscovery/v2.
"""

from collections.abc import Iterable, Mapping, Sequence

from tools.local_apiserver.core.api_resource import Catalog, Resource
from tools.local_apiserver.core.deletion import NAMESPACES
from tools.local_apiserver.core.reviews import REVIEWS, Review
from tools.local_apiserver.core.unstructured import Json, Object, strings

# The version of Kubernetes whose types and rules the API server has (builtin_schemas.json).
MAJOR, MINOR = "1", "37"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def version() -> Object:
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.0+relay-sidecar",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def groups(catalog: Catalog) -> Mapping[str, Sequence[str]]:
    """The versions of each group, the preferred one first; the core group is ""."""
    found: dict[str, set[str]] = {"": {"v1"}}
    for resource in catalog:
        if resource.is_served:
            found.setdefault(resource.name.group, set()).add(resource.name.version)
    for review in REVIEWS:
        found.setdefault(review.name.group, set()).add(review.name.version)
    return {group: sorted(versions, key=_priority) for group, versions in found.items()}


def _priority(name: str) -> tuple[int, int, int, str]:
    """apimachinery pkg/version/helpers.go: v2, v1, v1beta2, v1beta1, v1alpha1, then others."""
    for stage, word in ((1, "beta"), (2, "alpha")):
        major, found, minor = name.removeprefix("v").partition(word)
        if found and major.isdecimal() and minor.isdecimal():
            return (stage, -int(major), -int(minor), name)
    rest = name.removeprefix("v")
    if name.startswith("v") and rest.isdecimal():
        return (0, -int(rest), 0, name)
    return (3, 0, 0, name)


def core_versions() -> Object:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(catalog: Catalog) -> Object:
    found: list[Json] = [_group(*one) for one in groups(catalog).items() if one[0]]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(catalog: Catalog, name: str) -> Object | None:
    versions = groups(catalog).get(name)
    if versions is None or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: Sequence[str]) -> Object:
    found: list[Json] = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in versions
    ]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def resource_list(catalog: Catalog, group: str, version: str) -> Object | None:
    if version not in groups(catalog).get(group, ()):
        return None
    found: list[Json] = []
    for resource in _of_version(catalog, group, version):
        found.append(_listed(resource))
        if resource.has_status:
            found.append(
                {
                    "name": f"{resource.name.plural}/status",
                    "singularName": "",
                    "namespaced": resource.is_namespaced,
                    "kind": resource.kind,
                    "verbs": strings(_STATUS_VERBS),
                }
            )
    found += (
        {
            "name": review.name.plural,
            "singularName": review.kind.lower(),
            "namespaced": False,
            "kind": review.kind,
            "verbs": ["create"],
        }
        for review in _reviews(group, version)
    )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": found,
    }


def _of_version(catalog: Catalog, group: str, version: str) -> Iterable[Resource]:
    for resource in catalog:
        name = resource.name
        if resource.is_served and (name.group, name.version) == (group, version):
            yield resource


def _reviews(group: str, version: str) -> Iterable[Review]:
    return (one for one in REVIEWS if (one.name.group, one.name.version) == (group, version))


def _listed(resource: Resource) -> Object:
    return {
        "name": resource.name.plural,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
        **_aliases(resource),
    }


def _aliases(resource: Resource) -> Object:
    """Its short names and its categories, where it has any."""
    found: Object = {}
    if resource.short_names:
        found["shortNames"] = strings(resource.short_names)
    if resource.categories:
        found["categories"] = strings(resource.categories)
    return found


def _verbs(resource: Resource) -> list[Json]:
    left_out = ("deletecollection",) if resource.storage == NAMESPACES else ()
    return strings(verb for verb in _VERBS if verb not in left_out)


def aggregated(catalog: Catalog, *, of_core: bool) -> Object:
    """APIGroupDiscoveryList: everything of the core group, or of all others, at once."""
    found: list[Json] = []
    for name, versions in groups(catalog).items():
        if (not name) is of_core:
            shown: list[Json] = [_aggregated_version(catalog, name, one) for one in versions]
            found.append({"metadata": {"name": name} if name else {}, "versions": shown})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": found,
    }


def _aggregated_version(catalog: Catalog, group: str, version: str) -> Object:
    found: list[Json] = [_aggregated(one) for one in _of_version(catalog, group, version)]
    found += (
        {
            "resource": review.name.plural,
            "responseKind": {"group": "", "version": "", "kind": review.kind},
            "scope": "Cluster",
            "singularResource": review.kind.lower(),
            "verbs": ["create"],
        }
        for review in _reviews(group, version)
    )
    return {"version": version, "resources": found, "freshness": "Current"}


def _aggregated(resource: Resource) -> Object:
    name = resource.name
    kind: Object = {"group": name.group, "version": name.version, "kind": resource.kind}
    found: Object = {
        "resource": name.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
        **_aliases(resource),
    }
    if resource.has_status:
        found["subresources"] = [
            {"subresource": "status", "responseKind": kind, "verbs": strings(_STATUS_VERBS)}
        ]
    return found
