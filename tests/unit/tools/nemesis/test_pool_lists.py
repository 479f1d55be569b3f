"""Which second list of a relay is a finding, by the API server's audit log."""

import pytest

from relay_sidecar.core.stream.lists import PAGE_LIMIT
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, RESPONSE_STARTED, AuditEvent
from tools.nemesis.pool.judge.lists import lists_again
from tools.nemesis.pool.judge.timeline import Span, What

# The list before, a watch from then on, and the list that is judged.
LISTED, WATCHED, AGAIN = 10.0, 30.0, 100.0


def request(verb: str, at: float, *, ended: float | None = None, status: int = 200) -> AuditEvent:
    """`ended` None: it goes on."""
    query = f"limit={PAGE_LIMIT}" if verb == "list" else "watch=true"
    return AuditEvent(
        audit_id=f"{verb} {at}",
        stage=RESPONSE_STARTED if ended is None else RESPONSE_COMPLETE,
        verb=verb,
        user="system:node:n1",
        user_agent="relay-sidecar/1.0",
        request_uri=f"/api/v1/services?{query}",
        api_group="",
        resource="services",
        subresource="",
        namespace="",
        name="",
        status=status,
        received_at=at,
        stage_at=at if ended is None else ended,
        request_object=None,
        response_object=None,
    )


def found(*between: AuditEvent, spans: tuple[Span, ...] = ()) -> list[str]:
    first, last = (request("list", at, ended=at) for at in (LISTED, AGAIN))
    return lists_again([first, *between, last], spans, "services", now=AGAIN + 60.0)


def test_a_list_after_a_watch_that_could_have_gone_on_is_a_finding() -> None:
    (said,) = found(request("watch", WATCHED, ended=AGAIN))
    assert said.startswith("listed: the relay of n1 listed services again at 100.000")
    assert len(found(request("watch", WATCHED))) == 1


@pytest.mark.parametrize(
    "watch",
    [
        request("watch", WATCHED, ended=WATCHED, status=410),
        # Over a neighbour's link and on a busy machine the end is recorded seconds later.
        request("watch", WATCHED, ended=WATCHED + 5.0),
    ],
)
def test_a_list_after_a_version_that_is_gone_is_none(watch: AuditEvent) -> None:
    assert found(watch) == []


def test_a_list_of_a_relay_that_lost_its_disk_or_never_came_to_watch_is_none() -> None:
    assert found() == []
    lost = Span(What.DISK, "n1", WATCHED + 5.0, WATCHED + 6.0)
    assert found(request("watch", WATCHED, ended=AGAIN), spans=(lost,)) == []
