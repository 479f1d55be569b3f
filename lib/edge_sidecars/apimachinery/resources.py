"""A resource: its name, and the fields that select its objects, as kube-apiserver refuses them.

Owns: the table of kube-apiserver's own selectable fields, with its quirks. Those of custom
resources are published (`openapi`). Knows nothing of selectors' grammar.
Sources, all of Kubernetes 1.36: ToSelectableFields in pkg/registry/*/*/strategy.go (values),
AddFieldLabelConversionFunc in pkg/apis/*/*/conversion.go (names); for all other built-in resources
apimachinery's DefaultMetaV1FieldSelectorConversion; for custom ones apiextensions-apiserver's
registry/customresource/strategy.go and apiserver/conversion/converter.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from edge_sidecars.apimachinery.go_format import quote
from edge_sidecars.apimachinery.selection.attrs import Attrs
from edge_sidecars.apimachinery.selection.fields import NAME, NAMESPACE
from edge_sidecars.apimachinery.status import Refused, bad_request

# How the value of a field is read.
Reader = Callable[[Attrs], str]


@dataclass(frozen=True, slots=True, order=True)
class ResourceName:
    """A resource of a group version; `group` is "" for the core group."""

    group: str
    version: str
    plural: str

    @property
    def api_path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage(self) -> tuple[str, str]:
        """The resource in whichever API version: group and plural. Its objects are the same ones
        at the same versions; Events are so in both of their groups."""
        is_event = self.plural == "events" and self.group == "events.k8s.io"
        return ("" if is_event else self.group, self.plural)

    def __str__(self) -> str:
        """`deployments.v1.apps`, the form that kubectl takes."""
        return f"{self.plural}.{self.version}.{self.group}"


NO_RESOURCE = ResourceName("", "", "")


def _at(path: str, default: str = "") -> Reader:
    """The member at a path; `default` is what Go's zero value prints as, where JSON omits it."""
    return lambda facets: facets.field(path) or default


def _same(*paths: str) -> dict[str, Reader]:
    return {path: _at(path) for path in paths}


def _event_source(facets: Attrs) -> str:
    return facets.field("source.component") or facets.field("reportingComponent")


_NAMED = _same(NAME)
_NAMESPACED = _same(NAME, NAMESPACE)
_SIGNED = {**_NAMED, **_same("spec.signerName")}
_POD_CERTIFICATE = {**_SIGNED, **_same("spec.podName", "spec.nodeName")}
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

_BUILT_IN: Final[Mapping[ResourceName, Mapping[str, Reader]]] = {
    ResourceName("", "v1", "pods"): {
        **_NAMESPACED,
        **_same(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        "spec.hostNetwork": _at("spec.hostNetwork", "false"),
        "spec.host": _at("spec.nodeName"),
        # Accepted, but never filled: it selects as if no pod had any.
        "status.podIPs": lambda _: "",
    },
    ResourceName("", "v1", "nodes"): {
        **_NAMED,
        "spec.unschedulable": _at("spec.unschedulable", "false"),
    },
    ResourceName("", "v1", "namespaces"): {**_NAMED, **_same("status.phase")},
    ResourceName("", "v1", "secrets"): {**_NAMESPACED, **_same("type")},
    ResourceName("", "v1", "services"): {**_NAMESPACED, **_same("spec.clusterIP", "spec.type")},
    ResourceName("", "v1", "replicationcontrollers"): {
        **_NAMESPACED,
        "status.replicas": _at("status.replicas", "0"),
    },
    ResourceName("", "v1", "events"): {
        **_NAMESPACED,
        **_same(*(f"involvedObject.{member}" for member in _REFERENCE)),
        **_same("reason", "reportingComponent", "type"),
        "source": _event_source,
    },
    ResourceName("events.k8s.io", "v1", "events"): {
        **_NAMESPACED,
        **_same(*(f"regarding.{member}" for member in _REFERENCE)),
        **_same("reason", "reportingController", "type"),
    },
    ResourceName("batch", "v1", "jobs"): {
        **_NAMESPACED,
        "status.successful": _at("status.succeeded", "0"),
    },
    ResourceName("certificates.k8s.io", "v1", "certificatesigningrequests"): _SIGNED,
    **{
        ResourceName("certificates.k8s.io", version, plural): readers
        for version in ("v1alpha1", "v1beta1", "v1")
        for plural, readers in (
            ("clustertrustbundles", _SIGNED),
            ("podcertificaterequests", _POD_CERTIFICATE),
        )
    },
    **{
        ResourceName("resource.k8s.io", version, "resourceslices"): {
            **_NAMED,
            **_same("spec.nodeName", "spec.driver", "spec.pool.name"),
        }
        for version in ("v1beta1", "v1beta2", "v1")
    },
}

# The groups that kube-apiserver itself serves: pkg/controlplane/instance.go and
# apiserver/aggregator.go. Whatever else it serves are custom resources or aggregated APIs.
_BUILT_IN_GROUPS: Final = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "lifecycle.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)


def known_fields(resource: ResourceName) -> frozenset[str] | None:
    """The fields of a built-in resource; None where it is not built in: see OpenAPI."""
    if readers := _BUILT_IN.get(resource):
        return frozenset(readers)
    return frozenset(_NAMESPACED) if resource.group in _BUILT_IN_GROUPS else None


def fields_of(resource: ResourceName, facets: Attrs) -> Callable[[str], str]:
    """From a field's path to an object's value; "" where it has none."""
    readers = _BUILT_IN.get(resource)
    if readers is None:
        return facets.field
    return lambda path: readers[path](facets) if path in readers else ""


def check_fields(
    resource: ResourceName,
    paths: Iterable[str],
    *,
    published: Collection[str] = (),
    is_namespaced: bool = True,
) -> None:
    """Raises Refused as kube-apiserver does for the first field that it does not know.

    Of a custom resource, `published` are the fields in its OpenAPI document.
    """
    known = known_fields(resource)
    if known is None:
        known = frozenset({NAME, *published, *((NAMESPACE,) if is_namespaced else ())})
    for path in paths:
        if path not in known:
            raise Refused(bad_request(_unknown_field(resource, path)))


def _unknown_field(resource: ResourceName, path: str) -> str:
    if resource in _BUILT_IN and resource.group == "batch":
        return f"field label {quote(path)} not supported for Job"
    if resource in _BUILT_IN and resource.group == "resource.k8s.io":
        return f"field label not supported for {resource.api_version}, Kind=ResourceSlice: {path}"
    if resource in _BUILT_IN or resource.group not in _BUILT_IN_GROUPS:
        return f"field label not supported: {path}"
    return f'{quote(path)} is not a known field selector: only "{NAME}", "{NAMESPACE}"'
