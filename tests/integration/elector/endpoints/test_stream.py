"""`/leader?watch=true`: a line each second and at each change."""

import time
from functools import partial

from tests.integration.elector.endpoints.test_http import FIELDS
from tests.integration.elector.pair import Pair
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader
from tools.harness.pods.wire.http_client import Stream, answered

# Seconds from one document to the next where nothing changes.
INTERVAL = 1.0
# Enough that a machine which stands still now and then tells none from the other.
CHANGES = 20


def test_a_watch_streams_one_document_per_line_each_second(pair: Pair) -> None:
    with Stream(pair.leader) as stream:
        wait_for(lambda: len(stream.lines) >= 4, timeout=10, what="four documents")
    assert stream.response.status == 200
    assert stream.response.headers["Content-Type"].startswith("application/json")
    documents = stream.documents()
    assert all(document.keys() == FIELDS for document in documents)
    valid_until = [document["validUntil"] for document in documents]
    assert valid_until == sorted(valid_until)
    assert valid_until[-1] > valid_until[0], "renewals prolong it"
    arrivals = [at for at, _ in stream.lines]
    assert arrivals[3] - arrivals[0] < 6


def test_a_watch_speaks_server_sent_events_where_asked(pair: Pair) -> None:
    with Stream(pair.standby, accept="text/event-stream") as stream:
        wait_for(lambda: len(stream.lines) >= 4, timeout=10, what="two events")
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    lines = [line for _, line in stream.lines]
    assert lines[0].startswith(b"data: {")
    assert lines[1] == b"\n"
    assert stream.documents()[0]["role"] == "standby"


def test_a_watch_tells_a_change_at_once(fleet: Fleet) -> None:
    """With the document of each second alone, every change would wait a second for the next."""
    fleet.create_empty_lease()
    fleet.edit(spec={"holderIdentity": "0", "leaseDurationSeconds": 600})
    pod = fleet.add()

    def is_told(number: int) -> bool:
        return bool(stream.lines) and stream.documents()[-1]["holder"] == str(number)

    with Stream(pod) as stream:
        wait_for(lambda: is_told(0), timeout=10, what="the holder is known")
        started = time.monotonic()
        for number in range(1, CHANGES + 1):
            fleet.edit(spec={"holderIdentity": str(number)})
            wait_for(partial(is_told, number), timeout=10, what="the change", interval=0.005)
    assert time.monotonic() - started < CHANGES * INTERVAL / 2


def test_a_watch_tells_both_sides_of_a_hand_over(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add(), fleet.add()]
    leader = wait_for_leader(pods, timeout=10)
    [standby] = [pod for pod in pods if pod is not leader]
    with Stream(leader) as losing, Stream(standby) as winning:
        wait_for(lambda: bool(losing.lines and winning.lines), timeout=5, what="both streams")
        assert answered(leader, "/resign?cooldown=30s", method="POST").status == 200
        for stream, leads in ((losing, False), (winning, True)):
            wait_for(
                partial(lambda it, is_so: it.documents()[-1]["isLeader"] is is_so, stream, leads),
                timeout=10,
                what=f"isLeader: {leads}",
            )
