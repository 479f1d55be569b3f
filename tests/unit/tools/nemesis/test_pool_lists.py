"""Which lists of a relay are findings, by the audit log."""

from typing import Any

import pytest

from tests.unit.tools.nemesis.test_pool_writers import event
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, RESPONSE_STARTED, AuditEvent
from tools.nemesis.pool.judge.lists import lists_again
from tools.nemesis.pool.judge.timeline import Span, What

LIST = "/api/v1/services?limit=1000"
WATCH = "/api/v1/services?watch=true&resourceVersion=7"
NOW = 1000.0


def request(
    verb: str, at: float, *, node: str = "n1", lasts: float = 0.0, **more: Any
) -> AuditEvent:
    given = {
        "verb": verb,
        "audit_id": f"{node} {verb} {at}",
        "user_agent": "relay-sidecar/1.0",
        "request_uri": LIST if verb == "list" else WATCH,
        "received_at": at,
        "stage_at": at + lasts,
    }
    return event(f"system:node:{node}", "services", **{**given, **more})


FIRST = request("list", 100.0)
# As long as a link is up.
OPEN = request("watch", 101.0, stage=RESPONSE_STARTED)
BROKEN = request("watch", 101.0, lasts=100.0)
AGAIN = request("list", 300.0)


def found(*events: AuditEvent, spans: tuple[Span, ...] = (), now: float = NOW) -> list[str]:
    return lists_again(events, spans, "services", now=now)


@pytest.mark.parametrize(
    "events",
    [
        [FIRST, OPEN, AGAIN],
        [FIRST, OPEN, BROKEN, AGAIN],
        [FIRST, BROKEN, request("watch", 250.0, status=503), AGAIN],
        [FIRST, BROKEN, request("watch", 250.0, status=401), AGAIN],
        [FIRST, BROKEN, request("list", 250.0, status=403), AGAIN],
        # As of an API server that was just started.
        [FIRST, BROKEN, request("watch", 290.0, status=403), AGAIN],
        # What is no stream of its own says nothing of it.
        [FIRST, BROKEN, request("list", 290.0, request_uri="/api/v1/services?limit=100"), AGAIN],
        [FIRST, BROKEN, request("watch", 290.0, user_agent="kubectl/1.36"), AGAIN],
        [FIRST, BROKEN, request("watch", 290.0, resource="endpointslices"), AGAIN],
        [FIRST, BROKEN, request("watch", 290.0, namespace="shop"), AGAIN],
        [FIRST, BROKEN, request("watch", 290.0, node="n2"), AGAIN],
    ],
)
def test_a_list_after_a_watch_that_could_go_on_is_found(events: list[AuditEvent]) -> None:
    (finding,) = found(*events)
    assert finding.startswith("listed: the relay of n1 listed services again at 300.000")


@pytest.mark.parametrize(
    "events",
    [
        [FIRST, BROKEN],
        [FIRST, BROKEN, request("watch", 290.0, status=410), AGAIN],
        # A 410 within a watch.
        [FIRST, BROKEN, request("watch", 290.0, lasts=0.01), AGAIN],
        [FIRST, BROKEN, request("watch", 290.0, status=410), request("list", 295.0), AGAIN],
        [FIRST, BROKEN, request("list", 300.0, status=503)],
        [FIRST, BROKEN, request("list", 300.0, node="n2")],
        [FIRST, BROKEN, request("list", 300.0, request_uri=f"{LIST}&continue=x")],
        [FIRST, BROKEN, request("list", 300.0, user_agent="kubectl/1.36")],
    ],
)
def test_a_list_that_had_to_be_is_none(events: list[AuditEvent]) -> None:
    assert found(*events) == []


def test_a_second_list_without_a_410_is_found_after_one_that_had_to_be() -> None:
    gone = request("watch", 290.0, status=410)
    later = [request("watch", 301.0, lasts=50.0), request("list", 400.0)]
    assert len(found(FIRST, BROKEN, gone, AGAIN, *later)) == 1


@pytest.mark.parametrize(
    ("span", "findings"),
    [
        (Span(What.DISK, "n1", 290.0, 295.0), 0),
        (Span(What.DISK, "n1", 50.0, 60.0), 1),
        (Span(What.DISK, "n2", 290.0, 295.0), 1),
        # Killed before its first list was in the journal, and long after.
        (Span(What.RELAY, "n1", 100.5, 105.0), 0),
        (Span(What.OFF, "n1", 100.5, 105.0), 0),
        (Span(What.RELAY, "n1", 200.0, 210.0), 1),
        (Span(What.MEMBER, "n1", 100.5, 105.0), 1),
    ],
)
def test_a_relay_whose_journal_is_lost_lists_again(span: Span, findings: int) -> None:
    assert len(found(FIRST, BROKEN, AGAIN, spans=(span,))) == findings


def test_what_is_too_young_for_the_log_to_be_whole_is_judged_later() -> None:
    assert found(FIRST, OPEN, AGAIN, now=301.0) == []
    assert len(found(FIRST, OPEN, AGAIN, now=310.0)) == 1


def test_the_end_of_a_watch_may_be_told_after_the_list_that_follows_it() -> None:
    begun = request("watch", 290.0, stage=RESPONSE_STARTED)
    ended = request("watch", 290.0, lasts=0.01, stage=RESPONSE_COMPLETE)
    assert found(FIRST, BROKEN, begun, AGAIN, ended) == []
    assert len(found(FIRST, BROKEN, begun, AGAIN)) == 1
