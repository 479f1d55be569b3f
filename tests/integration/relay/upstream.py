"""What arrived at the API server of a namespace, apart from the tests' own requests.

Guarantee: the audit log is written before an answer is sent, so what somebody has an answer to is
here; running watches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

from relay_sidecar.core.stream.pace import ALL, FEW
from tests.integration.relay.place import CLOUD
from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.clients.admin import USER_AGENT as ADMIN
from tools.harness.controlplane.cluster import ControlPlane

# The limits by which a relay's questions differ from its lists; what proves a list it asks for
# without one, as a stream does only for what follows a page of a thousand.
QUESTIONS = ("1", str(FEW), str(ALL))
# As relays call themselves, in what they ask on their own account.
RELAY = "relay-sidecar"


def requests(
    plane: ControlPlane, namespace: str, *, resource: str = "configmaps", since: float = 0.0
) -> Sequence[AuditEvent]:
    """One event per request, in the order of their arrival; without a relay's questions."""
    events = plane.audit(stage=None, namespace=namespace, resource=resource, since=since)
    first: dict[str, AuditEvent] = {}
    for event in events:
        if not event.user_agent.startswith((ADMIN, CLOUD)) and not is_question(event):
            first.setdefault(event.audit_id, event)
    return sorted(first.values(), key=lambda each: each.received_at)


def of_relays(
    plane: ControlPlane, namespace: str, *, resource: str = "configmaps", since: float = 0.0
) -> Sequence[AuditEvent]:
    """Those that relays made on their own account: their streams."""
    found = requests(plane, namespace, resource=resource, since=since)
    return [each for each in found if each.user_agent.startswith(RELAY)]


def is_question(event: AuditEvent) -> bool:
    """What there is, asked beside a watch: names and versions only."""
    is_list = event.verb == "list" and event.user_agent.startswith(RELAY)
    limit = parameter(event, "limit")
    return is_list and (limit in QUESTIONS or not (limit or parameter(event, "continue")))


def verbs(events: Sequence[AuditEvent]) -> list[str]:
    return [each.verb for each in events]


def parameter(event: AuditEvent, name: str) -> str:
    """The value of a query parameter; empty where it is not given."""
    return parse_qs(urlsplit(event.request_uri).query).get(name, [""])[0]
