"""Whether a relay listed again what it could have gone on watching, by the audit log. Pure.

Invariant 5: a relay lists a shared resource once. It lists again only
    if the API server said that its version is gone: a watch was 410, or ended as soon as it began,
    which is how the audit log shows a 410 within a watch
    if its list before did not come through: no watch followed
    if its journal was lost or could not be written, or it was killed before that was
Guarantee: a list that may be of any of these is no finding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from relay_sidecar.core.stream.lists import PAGE_LIMIT
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent
from tools.nemesis.pool.judge.timeline import Span, What
from tools.nemesis.pool.judge.writers import NODE, RELAY

_ENDS = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
# Seconds: of a watch that only says that its version is gone, over the link of a neighbour and on a
# busy machine.
AT_ONCE = 10.0
# Until all events of what came before are in the audit log, too.
RECORDED = 5.0
# From a list until it is in the journal.
PERSISTED = 10.0


@dataclass(frozen=True)
class _Request:
    """Of a relay for one of its streams; `is_end`: a watch that leaves nothing to go on from."""

    node: str
    at: float
    is_list: bool
    is_end: bool


def lists_again(
    events: Iterable[AuditEvent], spans: Iterable[Span], resource: str, *, now: float
) -> list[str]:
    """`events`: from the start on, in all stages."""
    held = tuple(spans)
    before: dict[str, _Request] = {}
    listed: dict[str, float] = {}
    found = []
    for it in _requests(events, resource):
        last = before.get(it.node)
        if (
            it.is_list
            and last is not None
            and not last.is_list
            and not last.is_end
            and it.at <= now - RECORDED
            and not any(_loses(span, it.node, listed[it.node], it.at) for span in held)
        ):
            found.append(
                f"listed: the relay of {it.node} listed {resource} again at {it.at:.3f}, after a "
                f"watch that began at {last.at:.3f}"
            )
        if it.is_list:
            listed[it.node] = it.at
        before[it.node] = it
    return found


def _requests(events: Iterable[AuditEvent], resource: str) -> Sequence[_Request]:
    """That the API server answered, in order."""
    found: dict[str, _Request] = {}
    for it in events:
        is_of_a_relay = it.user.startswith(NODE) and it.user_agent.startswith(RELAY)
        if it.resource != resource or it.namespace or not is_of_a_relay or it.status is None:
            continue
        is_list, is_over = it.verb == "list", it.stage == RESPONSE_COMPLETE
        if not is_list and it.verb != "watch":
            continue
        is_failed = it.status >= HTTPStatus.BAD_REQUEST
        if is_failed and (is_list or it.status not in _ENDS):
            continue
        is_end = not is_list and (is_failed or (is_over and it.stage_at - it.received_at < AT_ONCE))
        if is_list and not _is_first_page(it.request_uri):
            continue
        node = it.user.removeprefix(NODE)
        found[it.audit_id] = _Request(node, it.received_at, is_list, is_end)
    return sorted(found.values(), key=lambda it: it.at)


def _is_first_page(uri: str) -> bool:
    """Of a list of a stream; what else a relay asks has other limits."""
    query = parse_qs(urlsplit(uri).query)
    return query.get("limit") == [str(PAGE_LIMIT)] and "continue" not in query


def _loses(span: Span, node: str, listed: float, until: float) -> bool:
    """Of what was listed then, it may leave nothing behind."""
    if span.node != node:
        return False
    if span.what is What.DISK:
        return span.touches(listed, until)
    is_killed = span.what in (What.RELAY, What.OFF)
    return is_killed and span.touches(listed, min(until, listed + PERSISTED))
