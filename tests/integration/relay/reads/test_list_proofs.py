"""LIST without a version out of a live stream: what upstream holds now, at the cost of its names.

Writers go past the relay, so that only upstream can tell whether the stream has all.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.relay.place import PATIENT, Kind, Place
from tests.integration.relay.upstream import is_question, requests
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters, Reply
from tools.harness.relay_objects import Contents, Widgets, collection

NEWEST: Parameters = {}
ANY: Parameters = {"resourceVersion": "0"}
EVEN: Parameters = {"labelSelector": "parity=even"}
WRITES = 12
READERS = 8
SOON = 20.0


def follow(place: Place, path: str) -> None:
    """A live stream of the whole path."""

    def is_live() -> bool:
        reply = place.caller().get(path, ANY)
        return reply.status == 200 and "Age" not in reply.headers

    wait_for(is_live, timeout=SOON, what=f"a live stream of {path}")


def listed(place: Place, path: str, query: Parameters = NEWEST) -> Reply:
    reply = place.caller().get(path, query)
    reply.expect()
    assert "Age" not in reply.headers, reply.headers["Warning"]
    return reply


@pytest.mark.parametrize(
    "kind", [Kind.RELAY, Kind.BEHIND_RELAY, Kind.FOR_CALLERS], ids=lambda kind: kind.value
)
@pytest.mark.parametrize("scope", ["own", "wider", "selected"])
def test_r6_each_list_has_what_was_written_before_it_whoever_wrote(
    places: Callable[[Kind], Place], contents: Contents, kind: Kind, scope: str
) -> None:
    """`own`: the stream is of what is listed; else it is of more."""
    place = places(kind)
    path = contents.path("configmaps")
    follow(place, collection("configmaps") if scope == "wider" else path)
    query = EVEN if scope == "selected" else {}
    names: list[str] = []
    version = 0
    for number in range(WRITES):
        if number % 3 == 2:
            contents.delete("configmaps", names.pop(0))
        else:
            made = contents.configmap(f"a{number:02}", labels={"parity": "even"})
            names.append(made["metadata"]["name"])
            contents.configmap(f"odd-{number:02}", labels={"parity": "odd"})
        reply = listed(place, path, query)
        assert [name for name in reply.names if name.startswith("a")] == names
        assert int(reply.version) >= version
        version = int(reply.version)
        again = place.caller().get(path, {"resourceVersion": version, **query})
        again.expect()
        assert int(again.version) >= version


def test_r6_readers_at_once_share_questions_and_none_gets_an_older_answer(
    control_plane: ControlPlane, contents: Contents
) -> None:
    """Each compares what it gets with the writes that had been answered when it asked."""
    with Place(Kind.RELAY, control_plane, flags=[PATIENT]) as place:
        place.wait_up()
        path = contents.path("configmaps")
        contents.configmaps(50)
        follow(place, path)
        answered = [0]
        is_over = threading.Event()
        since = time.time()

        def read(_: int) -> int:
            count = 0
            while not is_over.is_set():
                at_least = answered[0]
                found = [name for name in listed(place, path).names if name.startswith("w")]
                assert len(found) >= at_least
                count += 1
            return count

        with ThreadPoolExecutor(READERS) as pool:
            reading = [pool.submit(read, each) for each in range(READERS)]
            for number in range(40):
                contents.configmap(f"w-{number}")
                answered[0] = number + 1
            is_over.set()
            lists = sum(each.result() for each in reading)
        seen = control_plane.audit(
            stage=None, namespace=contents.namespace, resource="configmaps", since=since
        )
        questions = {each.audit_id for each in seen if is_question(each)}
        assert lists > READERS
        assert 0 < len(questions) < lists


def test_r6_equal_gets_at_once_are_one_question_and_none_gets_an_older_answer(
    control_plane: ControlPlane, contents: Contents
) -> None:
    with Place(Kind.RELAY, control_plane, flags=[PATIENT]) as place:
        place.wait_up()
        path = contents.path("configmaps", "one")
        contents.configmap("one", count="0")
        answered = [0]
        is_over = threading.Event()
        since = time.time()

        def read(_: int) -> int:
            count = 0
            while not is_over.is_set():
                at_least = answered[0]
                reply = place.caller().get(path)
                assert int(reply.expect()["data"]["count"]) >= at_least
                assert "Age" not in reply.headers
                count += 1
            return count

        with ThreadPoolExecutor(READERS) as pool:
            reading = [pool.submit(read, each) for each in range(READERS)]
            for number in range(1, 40):
                contents.edit("configmaps", "one", {"data": {"count": str(number)}})
                answered[0] = number
            is_over.set()
            gets = sum(each.result() for each in reading)
        asked = requests(control_plane, contents.namespace, since=since)
        assert gets > READERS
        assert 0 < len([each for each in asked if each.verb == "get"]) < gets


@pytest.mark.parametrize("what", ["all", "limit", "table", "protobuf", "yaml"])
def test_r6_what_the_stream_cannot_show_is_upstreams_own_answer(
    places: Callable[[Kind], Place], control_plane: ControlPlane, contents: Contents, what: str
) -> None:
    place = places(Kind.RELAY)
    contents.configmaps(3)
    path = contents.path("configmaps")
    follow(place, path)
    accept = {
        "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
        "protobuf": "application/vnd.kubernetes.protobuf",
        "yaml": "application/yaml",
    }.get(what, "application/json")
    query: Parameters = {"limit": 2} if what == "limit" else {}
    since = time.time()
    ours = place.caller().get(path, query, accept=accept)
    theirs = place.cloud.get(path, query, accept=accept)
    assert ours.status == theirs.status == 200
    assert ours.headers["Content-Type"] == theirs.headers["Content-Type"]
    if what == "limit":
        assert ours.names == theirs.names == ["cm-0000", "cm-0001"]
        assert ours.json()["metadata"]["remainingItemCount"] == 1
    passed_on = [
        each
        for each in requests(control_plane, contents.namespace, since=since)
        if each.verb == "list"
    ]
    assert len(passed_on) == (0 if what == "all" else 1)


def test_r6_custom_resources_are_proved_as_others_are(
    places: Callable[[Kind], Place], contents: Contents, widgets: Widgets
) -> None:
    place = places(Kind.RELAY)
    path = contents.path(widgets.resource)
    follow(place, path)
    for number in range(3):
        widgets.create(contents, f"w{number}")
        reply = listed(place, path)
        assert reply.names == [f"w{each}" for each in range(number + 1)]


def test_r6_a_watch_that_has_fallen_silent_makes_no_list_old(
    control_plane: ControlPlane, contents: Contents
) -> None:
    """Connections that were open hear nothing any more; an answer may be old only with its Age."""
    with Place(Kind.RELAY, control_plane) as place:
        place.wait_up()
        path = contents.path("configmaps")
        contents.configmaps(3)
        follow(place, path)
        listed(place, path)
        place.link.silence()
        until = time.monotonic() + 6.0
        number = fresh = 0
        while time.monotonic() < until:
            number += 1
            contents.configmap(f"w-{number}")
            reply = place.caller().get(path)
            reply.expect()
            if "Age" not in reply.headers:
                fresh += 1
                assert f"w-{number}" in reply.names
        assert fresh > 0
