"""An elector's page: contrib's clients get their bytes, and ten pages cost next to nothing."""

import http.client
import json
import time
from contextlib import ExitStack, closing
from typing import Any

from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.runtime.web.page.asked import EVENTS, MAX_STREAMS
from elector_sidecar.core.moves.annotations import HOLD_ANNOTATION
from tests.integration.elector.pair import Pair
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader
from tools.harness.pods.wire.http_client import Stream, ports, resident

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
FILES = ("/", "/page/shell.js", "/page/style.css", "/page/elector.js", "/page/icon.svg")
# KiB with ten pages open.
COST = 2048
# Seconds in which Python's own pages settle.
SETTLES = 3.0


def got(port: int, path: str, accept: str) -> tuple[int, str, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path, headers={"Accept": accept})
        with connection.getresponse() as answer:
            return answer.status, answer.headers.get_content_type(), answer.read()


def name_of(pod: ElectorPod) -> bytes:
    return got(pod.port, "/", "*/*")[2]


def shown(pod: ElectorPod) -> dict[str, Any]:
    """The document of its page."""
    found: dict[str, Any] = json.loads(got(pod.port, EVENTS, "*/*")[2])["status"]
    return found


def test_a_browser_gets_the_page_and_contribs_clients_their_bytes(pair: Pair) -> None:
    name = {"name": pair.leader.name}
    for accept in ("*/*", "application/json", "text/html, image/gif, *; q=.2"):
        told = got(pair.leader.port, "/", accept)
        assert told == (200, "application/json", json.dumps(name, separators=(",", ":")).encode())
    status, kind, page = got(pair.leader.port, "/", BROWSER)
    assert (status, kind) == (200, "text/html")
    assert b"page/elector.js" in page
    _, probes = ports(pair.leader)
    assert got(probes, "/", BROWSER)[0] == 404
    assert got(probes, EVENTS, "*/*")[0] == 404


def test_what_the_page_shows_is_of_leader_and_history(pair: Pair) -> None:
    document = shown(pair.standby)
    assert document["leader"]["role"] == "standby"
    assert document["leader"]["holder"] == pair.leader.identity
    history = json.loads(got(pair.standby.port, "/history", "*/*")[2])
    assert document["history"] == history["terms"]
    assert document["shards"] is None
    asked = document["moves"]
    assert [asked[it] for it in ("switchover", "hold", "problem")] == [None, None, ""]
    found = [(it["pod"], it["own"], it["leads"]) for it in document["candidates"]]
    assert found == [(pair.standby.name, True, False), (pair.leader.name, False, True)]


def test_a_hold_is_on_the_page_of_an_elector(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add()
    wait_for_leader([pod], timeout=20)
    until = rfc3339.stamp_of(time.time() + 600, "seconds")
    hold = {HOLD_ANNOTATION: json.dumps({"id": "one", "until": until})}
    fleet.edit(metadata={"annotations": hold})
    wait_for(
        lambda: shown(pod)["moves"]["hold"] == {"until": until},
        timeout=20,
        what="the hold is shown",
    )


def test_ten_open_pages_cost_two_mebibytes_at_most(pair: Pair) -> None:
    pod = pair.standby
    for _ in range(20):
        name_of(pod)
    before = resident(pod)
    for path in FILES:
        assert got(pod.port, path, BROWSER)[0] == 200
    with ExitStack() as stack:
        opened = [Stream(pod, path=EVENTS, accept="text/event-stream") for _ in range(MAX_STREAMS)]
        streams = [stack.enter_context(it) for it in opened]
        wait_for(lambda: all(len(it.lines) > 4 for it in streams), timeout=20, what="documents")
        time.sleep(SETTLES)
        assert resident(pod) - before <= COST
        assert got(pod.port, EVENTS, "text/event-stream")[0] == 503
