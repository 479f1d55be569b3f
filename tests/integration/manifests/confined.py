"""Processes under the service accounts that manifests/ give them, and what became of each rule.

Owns: an API server as seen by one account, and the audit log as seen by one Role. Guarantees: an
account has the rules that kustomize built and no others; a rule counts as used only by requests
that RBAC could allow by it and that were answered.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.cluster import ControlPlane

Json = dict[str, Any]


class AccountOf(ControlPlane):
    """A control plane that runs already, whose kubeconfigs are those of one account."""

    def __init__(
        self,
        plane: ControlPlane,
        *,
        namespace: str,
        account: str,
        rules: Sequence[Json] = (),
        cluster_rules: Sequence[Json] = (),
    ) -> None:
        self.__dict__.update(plane.__dict__)
        self.user = f"system:serviceaccount:{namespace}:{account}"
        self._namespace, self._account = namespace, account
        self._rules, self._cluster_rules = rules, cluster_rules

    def admin_kubeconfig(self, *, server: str | None = None) -> Path:
        """Of the account, wherever a process of a pod asks for one."""
        return self.kubeconfig_for(
            self._namespace,
            self._account,
            self._rules,
            cluster_rules=self._cluster_rules,
            server=server,
        )


@dataclass(frozen=True, order=True)
class Right:
    """What one rule allows; `name` where it allows no other."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def allows(self, event: AuditEvent) -> bool:
        resource = f"{event.resource}/{event.subresource}".rstrip("/")
        return (
            self.group == event.api_group
            and self.resource == resource
            and self.verb == event.verb
            and self.name in ("", event.name)
        )


def rights(rules: Iterable[Json]) -> Iterator[tuple[int, Right]]:
    """Each with the number of its rule."""
    for number, rule in enumerate(rules):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", ("",)):
                        yield number, Right(group, resource, verb, name)


def unused(rules: Sequence[Json], events: Sequence[AuditEvent]) -> list[str]:
    """Verbs and resources of a rule that no request needed."""
    found = [(number, right) for number, right in rights(rules)]
    used = [(number, it) for number, it in found if any(it.allows(each) for each in events)]
    verbs = {(number, it.verb) for number, it in found} - {(n, it.verb) for n, it in used}
    resources = {(number, it.resource) for number, it in found} - {
        (n, it.resource) for n, it in used
    }
    return [f"rule {number}: {word}" for number, word in sorted(verbs | resources)]
