"""Judges answers of a place by asking the API server itself.

Guarantees: a list is true iff the API server, asked for that very resourceVersion, lists the same
objects; a refusal is right iff the API server refuses in the same words.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.integration.relay.place import Place
from tools.harness.pods.wire.caller import Json, Query, Reply

EXACT = {"resourceVersionMatch": "Exact"}
SOON = 20.0
# What may differ between two refusals: how far each one's server was.
CURRENT = re.compile(r"current: \d+")


def as_map(query: Query) -> dict[str, str | int]:
    return dict(query.items() if isinstance(query, Mapping) else query)


def assert_snapshot(place: Place, path: str, query: Query, reply: Reply) -> None:
    """The list is what stood in the cloud at the version that it names, bytes of items included
    as far as JSON tells them."""
    said = reply.expect()
    selectors = {name: value for name, value in as_map(query).items() if name.endswith("Selector")}
    exact = {**selectors, **EXACT, "resourceVersion": said["metadata"]["resourceVersion"]}
    truth = place.cloud.get(path, exact).expect()
    assert said["kind"] == truth["kind"]
    assert said["apiVersion"] == truth["apiVersion"]
    assert [bare(each) for each in said["items"]] == [bare(each) for each in truth["items"]]


def newest(place: Place, path: str, *, timeout: float = SOON) -> Reply:
    """The first answer that is not told to be old: a relay whose upstream is slow tells what it
    knows, with its age."""
    deadline = time.monotonic() + timeout
    while (reply := place.caller().get(path)).headers["Warning"] is not None:
        assert time.monotonic() < deadline, f"upstream has not answered for {timeout:g} s"
    return reply


def bare(item: Json) -> Json:
    """Without what API servers leave out of the items of lists."""
    return {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}


def assert_same_refusal(
    place: Place, path: str, query: Query, *, accept: str = "application/json"
) -> Json:
    """The place and the API server, asked at the same time, refuse with the same Status, which
    is returned."""
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(caller.get, path, query, accept=accept)
            for caller in (place.caller(), place.cloud)
        ]
    said, truth = (each.result() for each in asked)
    assert truth.status >= 400
    assert (said.status, refusal(said)) == (truth.status, refusal(truth))
    for header in ("Content-Type", "Retry-After"):
        assert said.headers[header] == truth.headers[header], header
    return said.json()


def refusal(reply: Reply) -> Json:
    status = reply.json()
    assert status["kind"] == "Status"
    return {**status, "message": CURRENT.sub("current: N", status["message"])}
