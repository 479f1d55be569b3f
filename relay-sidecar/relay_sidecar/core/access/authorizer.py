"""What a caller wants to do, as kube-apiserver's authorizers see it, and what is decided about it.

Owns: how upstream is asked about it (SelfSubjectAccessReview), the Status of a refusal, which is
kube-apiserver's to the letter, and the questions that follow from a user's rules. A
SelfSubjectRulesReview may be incomplete, and does not say where a rule holds: nothing is allowed by
it. Sources: k8s.io/apiserver v0.36, pkg/endpoints/filters/authorization.go and
handlers/responsewriters/errors.go. Values only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final

import msgspec

from edge_sidecars.apimachinery.go_format import quote
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.status import Status, forbidden

# Requests whose selectors authorizers get to see: pkg/endpoints/request/requestinfo.go.
VERBS_WITH_SELECTORS = frozenset({"list", "watch", "deletecollection"})
READ_VERBS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """`path` is set for what is no resource, and nothing else but the verb then."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    path: str = ""

    @property
    def is_of_secrets(self) -> bool:
        """Whether it may show one: also as any of all resources."""
        return self.resource in ("secrets", "*") and self.group in ("", "*")

    def in_general(self) -> tuple[Attributes, ...]:
        """Of a read: the same without name and selectors, and in all namespaces. An authorizer that
        allows one of these allows this (RBAC: a rule with resourceNames allows no request without
        one, and who may list all objects may list some)."""
        if self.verb not in READ_VERBS or self.path:
            return ()
        whole = replace(self, name="", field_selector="", label_selector="")
        found = [whole, replace(whole, namespace="")]
        return tuple(each for each in dict.fromkeys(found) if each != self)

    def general_get(self) -> Attributes | None:
        """Of a read of objects: the `get` of what it may show, without regard to their names but
        where it is about one name only."""
        if self.path or self.subresource or self.verb not in READ_VERBS:
            return None
        name = "" if self.verb == "get" else self.name
        if self.verb == "get" and not self.name:
            return None
        return replace(self, verb="get", name=name, field_selector="", label_selector="")

    def counterpart(self) -> Attributes | None:
        """Of a LIST the WATCH of the same, and the other way round: a client asks for one of them
        while it runs, and for the other when it starts again."""
        other = {"list": "watch", "watch": "list"}.get(self.verb)
        if other is None or self.path or self.subresource:
            return None
        return replace(self, verb=other)

    def within(self, namespace: str) -> Attributes:
        """The same in one namespace."""
        return replace(self, namespace=namespace)

    def review(self) -> dict[str, object]:
        """The SelfSubjectAccessReview that asks."""
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": self._spec(),
        }

    def refusal(self, user: str, reason: str) -> Status:
        """403; `reason` as the authorizer gave it, mostly empty."""
        why = _without_html(self._complaint(user))
        if reason:
            why = f"{why}: {reason}"
        return forbidden(self.resource, self.name, group=self.group, why=why)

    def _spec(self) -> dict[str, object]:
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        attributes: dict[str, object] = {
            "verb": self.verb,
            "group": self.group,
            "version": self.version,
            "resource": self.resource,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        if self.verb in VERBS_WITH_SELECTORS:
            # Kubernetes 1.31 and later look at them, earlier ones decide without (KEP-4601).
            if self.field_selector:
                attributes["fieldSelector"] = {"rawSelector": self.field_selector}
            if self.label_selector:
                attributes["labelSelector"] = {"rawSelector": self.label_selector}
        return {"resourceAttributes": attributes}

    def _complaint(self, user: str) -> str:
        if self.path:
            return f"User {quote(user)} cannot {self.verb} path {quote(self.path)}"
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f"in the namespace {quote(self.namespace)}" if self.namespace else ""
        return (
            f"User {quote(user)} cannot {self.verb} resource {quote(resource)} "
            f"in API group {quote(self.group)} {where or 'at the cluster scope'}"
        )


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The userInfo of a SelfSubjectReview; `extra` is sorted by key."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """`until` is a moment of the boot clock; a denial has the user's name and the authorizer's
    reason."""

    allowed: bool
    until: float
    user: str = ""
    reason: str = ""


class Undecided(Enum):
    """Upstream is to be asked whose the token is, and then what that user may; or that only. It
    refused the token; or it cannot be asked, and nothing recent enough is cached."""

    NEEDS_IDENTITY = auto()
    NEEDS_DECISION = auto()
    TOKEN_REJECTED = auto()
    UNVERIFIABLE = auto()


Authorization = Decision | Undecided


def _without_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
