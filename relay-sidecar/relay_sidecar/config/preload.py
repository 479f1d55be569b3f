"""What `--preload` and `--pool-resource` name: a resource as kubectl spells it, with a query as the
API server's: `pods?fieldSelector=spec.nodeName=n1`, `deployments.apps`, `widgets.v1.example.com`.

Pure. Guarantee: with `--pool-resource`, what grants rights, is secret, or says which nodes there
are is never taken from a peer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.selector import BadSelector
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.formats.rfc1123 import is_label
from relay_sidecar.core.caching import is_keepable

# RFC 1123: a resource is a label, a group a subdomain, a namespace a label.
# apimachinery, pkg/version/helpers.go: kubeVersionRegex.
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?", re.ASCII)
_KEYS = ("namespace", "labelSelector", "fieldSelector")


@dataclass(frozen=True)
class Preload:
    """`version` None: the one that upstream prefers; `namespace` "": all."""

    plural: str
    group: str
    version: str | None = None
    namespace: str = ""
    labels: LabelSelector = field(default_factory=LabelSelector)
    fields: FieldSelector = field(default_factory=FieldSelector)

    def scope(self, version: str) -> ListScope:
        """With the version that upstream prefers, where none was named."""
        resource = ResourceName(self.group, self.version or version, self.plural)
        return ListScope(resource, self.namespace, self.labels, self.fields)


def parse_preload(text: str) -> Preload:
    """Raises `BadInput`, also for what is never kept."""
    found = parse_resource(text)
    if not is_keepable(found.plural, found.group):
        raise BadInput(
            f"{text!r:.120} is never kept, since clients go wrong by old Leases, reviews and "
            "signing requests: name another resource"
        )
    return found


def parse_resource(text: str) -> Preload:
    """Any resource. Raises `BadInput`."""
    name, _, query = text.partition("?")
    plural, _, rest = name.partition(".")
    version: str | None = None
    first, _, after = rest.partition(".")
    if _VERSION.fullmatch(first):
        version, rest = first, after
    labels = [plural, *(rest.split(".") if rest else [])]
    if not all(map(is_label, labels)):
        raise BadInput(
            f"{text!r:.120} is not RESOURCE[.VERSION][.GROUP][?QUERY]: write it like "
            "pods?fieldSelector=spec.nodeName=n1, deployments.apps or widgets.v1.example.com"
        )
    given = _query(text, query)
    try:
        return Preload(
            plural,
            rest,
            version,
            given.get("namespace", ""),
            LabelSelector.parse(given.get("labelSelector", "")),
            FieldSelector.parse(given.get("fieldSelector", "")),
        )
    except BadSelector as error:
        raise BadInput(f"{text!r:.120}: {error}") from error


def _query(text: str, query: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in _KEYS or key in given:
            remedy = (
                "is given twice: drop one"
                if key in given
                else f"is not known: use {', '.join(_KEYS)}"
            )
            raise BadInput(f"{text!r:.120}: {key!r:.80} {remedy}")
        given[key] = value
    namespace = given.get("namespace", "")
    if namespace and not is_label(namespace):
        raise BadInput(
            f"{text!r:.120}: {namespace!r:.80} is not a namespace: lower-case, digits and -"
        )
    return given


# A declaration; None: of nothing at all.
PoolResource = Preload | None

NONE: Final = "none"
DEFAULT: Final = ("services", "endpointslices.discovery.k8s.io")
# As many as a member tells its peers of.
MAX_RESOURCES: Final = 16
# Plural and group (pool.md 4): secrets and what pods run with, identities, the state of nodes, and
# the directory of the pool itself.
_REFUSED: Final = frozenset(
    {
        *((it, "") for it in ("secrets", "configmaps", "serviceaccounts", "nodes", "pods")),
        ("poolmembers", "pool.edge-sidecars.io"),
    }
)
_REFUSED_GROUPS: Final = frozenset(
    {
        *("authentication.k8s.io", "authorization.k8s.io", "rbac.authorization.k8s.io"),
        *("admissionregistration.k8s.io", "certificates.k8s.io", "coordination.k8s.io"),
    }
)


def parse_pool_resource(text: str) -> PoolResource:
    """Raises `BadInput`."""
    if text == NONE:
        return None
    found = parse_resource(text)
    if (found.plural, found.group) in _REFUSED or found.group in _REFUSED_GROUPS:
        raise BadInput(
            f"{text!r:.120} is never taken from a neighbour: name what is the same for all nodes "
            "and secret to none, like services"
        )
    return found


def chosen(given: Sequence[PoolResource]) -> tuple[Preload, ...]:
    """The default where none is given. Raises `BadInput`."""
    if not given:
        return tuple(map(parse_preload, DEFAULT))
    if None in given and len(given) > 1:
        raise BadInput(f"--pool-resource {NONE} beside others: drop one")
    found = tuple(it for it in given if it is not None)
    if len(found) > MAX_RESOURCES:
        raise BadInput(f"--pool-resource {len(found)} times: at most {MAX_RESOURCES}")
    names = [(it.plural, it.group) for it in found]
    for plural, group in names:
        if names.count((plural, group)) > 1:
            name = f"{plural}.{group}" if group else plural
            raise BadInput(f"--pool-resource {name} twice: name it once, for all that is shared")
    return found
