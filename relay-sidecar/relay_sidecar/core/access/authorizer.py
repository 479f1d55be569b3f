"""What a caller wants to do, as kube-apiserver's authorizers see it, and what is decided about it.

Owns: how upstream is asked about it (SelfSubjectAccessReview), and the Status of a refusal, which
is kube-apiserver's to the letter. Sources: k8s.io/apiserver v0.36,
pkg/endpoints/filters/authorization.go and handlers/responsewriters/errors.go. Values only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from edge_sidecars.apimachinery.go_format import quote
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
