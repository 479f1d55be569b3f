"""Roles as YAML to apply: the rules of a component's `rbac` sub-command, bound to one account.

Guarantees: the text is YAML without a YAML library, since images have none; each rule has its
reason above it. Names are checked by the caller.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.formats.rfc1123 import is_label, is_subdomain

_WIDTH = 100
_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Rule:
    """`names`: the only objects, where RBAC can limit it to names."""

    reason: str
    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    names: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Account:
    """`namespace` "": that of the Role, which kubectl decides."""

    name: str
    namespace: str = ""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Rules for one account. `namespace` None: in all of them. `binding`: the binding's name, where
    other accounts may have the same role. `binding_labels`: beside `labels`, which both objects
    have."""

    name: str
    account: Account
    rules: Sequence[Rule]
    namespace: str | None = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    binding: str = ""
    binding_labels: Mapping[str, str] = field(default_factory=dict)


def service_account(text: str) -> str:
    """Raises `BadInput`."""
    if not text:
        raise BadInput("is missing: name the account of the pods, as in spec.serviceAccountName")
    if not is_subdomain(text):
        raise BadInput(
            f"{text!r:.80} is not the name of a service account: lower-case letters, digits, - "
            "and ."
        )
    return text


def namespace(text: str) -> str:
    """Raises `BadInput`."""
    if not is_label(text):
        raise BadInput(f"{text!r:.80} is not a namespace: lower-case letters, digits and -")
    return text


def manifest(grants: Iterable[Grant]) -> str:
    """A YAML stream."""
    return "---\n".join(f"{_role(it)}---\n{_binding(it)}" for it in grants)


def _role(it: Grant) -> str:
    kind = "ClusterRole" if it.namespace is None else "Role"
    return f"{_head(it, it.name, kind, it.labels)}rules:\n{''.join(map(_rule, it.rules))}"


def _rule(it: Rule) -> str:
    lines = [
        *wrap(it.reason, _WIDTH, initial_indent="  # ", subsequent_indent="  # "),
        f"  - apiGroups: {_flow([it.group])}",
        f"    resources: {_flow(it.resources)}",
        *([f"    resourceNames: {_flow(it.names)}"] if it.names else []),
        f"    verbs: {_flow(it.verbs)}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _binding(it: Grant) -> str:
    scope = "Cluster" if it.namespace is None else ""
    labels = {**it.labels, **it.binding_labels}
    account = [f"  - kind: ServiceAccount\n    name: {_quoted(it.account.name)}\n"]
    if it.account.namespace:
        account.append(f"    namespace: {_quoted(it.account.namespace)}\n")
    return (
        f"{_head(it, it.binding or it.name, f'{scope}RoleBinding', labels)}"
        f"roleRef:\n  apiGroup: {_GROUP}\n  kind: {scope}Role\n  name: {_quoted(it.name)}\n"
        f"subjects:\n{''.join(account)}"
    )


def _head(it: Grant, name: str, kind: str, labels: Mapping[str, str]) -> str:
    lines = [
        f"apiVersion: {_GROUP}/v1",
        f"kind: {kind}",
        "metadata:",
        f"  name: {_quoted(name)}",
    ]
    if it.namespace:
        lines.append(f"  namespace: {_quoted(it.namespace)}")
    if labels:
        pairs = ", ".join(f"{key}: {_quoted(value)}" for key, value in labels.items())
        lines.append(f"  labels: {{{pairs}}}")
    return "".join(f"{line}\n" for line in lines)


def _flow(values: Sequence[str]) -> str:
    return json.dumps(list(values))


def _quoted(text: str) -> str:
    """Also where it looks like a number."""
    return json.dumps(text)
