"""What a user may read, as upstream lists it, turned into questions that decide.

A SelfSubjectRulesReview may be incomplete, and does not say where a rule holds; so nothing is
allowed by it: it only says what is worth a SelfSubjectAccessReview. Pure.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from edge_sidecars.apimachinery.resources import ResourceName
from relay_sidecar.core.access.authorizer import READ_VERBS, Attributes

# At most, for one user: kube-proxy, CoreDNS and flanneld may read less than ten things each.
MAX_QUESTIONS: Final = 48
_ANY: Final = "*"
# What components of a node read; asked about first, and also where no stream has it yet.
USUAL: Final = (
    ResourceName("", "v1", "nodes"),
    ResourceName("", "v1", "pods"),
    ResourceName("", "v1", "services"),
    ResourceName("discovery.k8s.io", "v1", "endpointslices"),
    ResourceName("", "v1", "namespaces"),
    ResourceName("", "v1", "configmaps"),
)


class ResourceRule(msgspec.Struct, frozen=True, rename="camel"):
    """Of `status.resourceRules`."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def is_about(self, resource: ResourceName) -> bool:
        return bool({resource.group, _ANY} & {*self.api_groups}) and bool(
            {resource.plural, _ANY} & {*self.resources}
        )

    @property
    def read_verbs(self) -> tuple[str, ...]:
        return READ_VERBS if _ANY in self.verbs else tuple(v for v in READ_VERBS if v in self.verbs)


class _RulesStatus(msgspec.Struct, rename="camel"):
    resource_rules: list[ResourceRule] = []


def rules_of(status: dict[str, Any]) -> list[ResourceRule]:
    """Of the status of a SelfSubjectRulesReview. Raises `msgspec.ValidationError`."""
    return msgspec.convert(status, _RulesStatus).resource_rules


def questions(
    rules: Iterable[ResourceRule], known: Iterable[ResourceName], *, namespace: str
) -> list[Attributes]:
    """What to ask about, the usual things first: reads of `USUAL` and of the resources that are
    `known`, in all namespaces; by name in `namespace`, for which the rules were asked."""
    found: dict[Attributes, None] = {}
    rules = list(rules)
    for resource in dict.fromkeys((*USUAL, *known)):
        for rule in rules:
            if rule.is_about(resource):
                found.update(dict.fromkeys(_questions(rule, resource, namespace)))
    return list(found)[:MAX_QUESTIONS]


def _questions(rule: ResourceRule, resource: ResourceName, namespace: str) -> Iterable[Attributes]:
    about = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    if not rule.resource_names:
        return [Attributes(verb=verb, **about) for verb in rule.read_verbs]
    if "get" not in rule.read_verbs:
        return ()
    return [
        Attributes(verb="get", namespace=namespace, name=name, **about)
        for name in rule.resource_names
    ]
