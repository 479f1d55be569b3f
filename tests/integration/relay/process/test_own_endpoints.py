"""The relay's own endpoints: what they answer in which state, and what they refuse."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus

import pytest

from edge_sidecars.runtime.web.connections import Handler
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.telemetry.status import JournalStatus, RelayStatus, UpstreamLinkStatus
from relay_sidecar.web.listener import OwnEndpoints
from tests.integration.relay.hosted import Hosted
from tools.harness.pods.wire.caller import Caller

READY = RelayStatus(
    version="1.2.3",
    uptime=1.0,
    lack="",
    access="own",
    link=UpstreamLinkStatus(server="https://10.0.0.1", state="up", down_for=None),
    journal=JournalStatus(directory=None, failure=None, note=None),
    streams=(),
    watchers=0,
    max_watchers=1,
    max_objects=1,
)
CUT = replace(READY, link=replace(READY.link, state="down", down_for=3.0))
RELAYED = replace(READY, link=replace(READY.link, state="relayed", down_for=3.0))
REFUSED = replace(READY, link=replace(READY.link, state="unauthorized"))
LOADING = replace(READY, lack="the journal is being read")


class Relay:
    """What the endpoints are told."""

    def __init__(self) -> None:
        self.counters = RelayCounters()
        self.told = READY

    @property
    def lack(self) -> str:
        return self.told.lack

    @property
    def link(self) -> UpstreamLinkStatus:
        return self.told.link

    def status(self, *, of_restart: bool = False) -> RelayStatus:
        return self.told


@pytest.fixture
def relay() -> Relay:
    return Relay()


@pytest.fixture
def caller(relay: Relay) -> Iterator[Caller]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Handler]:
        yield OwnEndpoints(relay).handle

    with Hosted(opened) as place:
        yield Caller(place.url)


@pytest.mark.parametrize(
    ("told", "path", "status"),
    [
        (READY, "/readyz", 200),
        (READY, "/readyz?upstream=true", 200),
        (CUT, "/readyz", 200),
        (CUT, "/readyz?upstream=false", 200),
        (CUT, "/readyz?upstream=true", 503),
        (CUT, "/readyz?upstream=1", 503),
        (RELAYED, "/readyz", 200),
        (RELAYED, "/readyz?upstream=true", 503),
        (REFUSED, "/readyz", 200),
        (REFUSED, "/readyz?upstream=true", 503),
        (LOADING, "/readyz", 503),
        (LOADING, "/readyz?upstream=true", 503),
        (LOADING, "/livez", 200),
        (CUT, "/livez", 200),
    ],
)
def test_ready_is_who_can_answer_and_only_on_demand_who_can_ask(
    relay: Relay, caller: Caller, told: RelayStatus, path: str, status: int
) -> None:
    relay.told = told
    assert caller.get(path).status == status


def test_what_is_missing_is_said(relay: Relay, caller: Caller) -> None:
    relay.told = LOADING
    assert b"the journal is being read" in caller.get("/readyz").body
    relay.told = CUT
    assert b"https://10.0.0.1 is out of reach" in caller.get("/readyz?upstream=true").body
    relay.told = RELAYED
    assert b"cut off from its own upstream" in caller.get("/readyz?upstream=true").body
    relay.told = REFUSED
    assert b"refuses the relay's credentials" in caller.get("/readyz?upstream=true").body


@pytest.mark.parametrize(
    "query", ["?upstraem=true", "?upstream=maybe", "?upstream=true&upstream=false"]
)
def test_a_misspelt_condition_does_not_read_as_none(caller: Caller, query: str) -> None:
    answer = caller.get(f"/readyz{query}")
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert b"upstream" in answer.body


def test_the_status_is_a_document_of_the_moment(relay: Relay, caller: Caller) -> None:
    assert caller.get("/status").json()["link"]["isUp"] is True
    relay.told = CUT
    answer = caller.get("/status")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["link"] == {
        "server": "https://10.0.0.1",
        "isUp": False,
        "state": "down",
        "via": None,
        "ownIsUp": False,
        "downSeconds": 3.0,
        "wasUp": True,
        "cause": None,
        "proxy": None,
        "outages": [],
    }


def test_the_metrics_are_of_the_moment(relay: Relay, caller: Caller) -> None:
    relay.counters.answered("GET", 200, "cache")
    answer = caller.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b'relay_requests_total{method="GET",code="200",source="cache"} 1' in answer.body


@pytest.mark.parametrize("path", ["/", "/healthz", "/api", "/version", "/readyz/", "/%2e"])
def test_an_unknown_path_names_those_that_are_there(caller: Caller, path: str) -> None:
    answer = caller.get(path)
    assert answer.status == HTTPStatus.NOT_FOUND
    for known in (b"/livez", b"/readyz", b"/metrics", b"/status"):
        assert known in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed_here(caller: Caller, method: str) -> None:
    answer = caller.ask("/status", method=method, body=b"{}")
    assert answer.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
def test_head_and_options_tell_the_same_status_without_a_body(
    relay: Relay, caller: Caller, method: str
) -> None:
    assert caller.ask("/readyz", method=method).status == HTTPStatus.OK
    relay.told = LOADING
    answer = caller.ask("/readyz", method=method)
    assert (answer.status, answer.body) == (HTTPStatus.SERVICE_UNAVAILABLE, b"")
