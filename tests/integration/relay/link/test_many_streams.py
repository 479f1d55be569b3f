"""After a cut, hundreds of streams are live again without holding up anybody: each costs one watch
and one question, they begin some at a time, and clients are answered meanwhile."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.relay_objects import Contents

STREAMS = 256
# Connections beside one for each watch: those that questions share, probes, other requests.
SHARED = STREAMS // 2
# Seconds; a quiet machine needs two.
SOON = 60.0


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "kind",
    [Kind.RELAY, pytest.param(Kind.FOR_CALLERS, marks=pytest.mark.long)],
    ids=lambda kind: kind.value,
)
def test_l2_many_streams_are_live_again_after_a_cut(
    kind: Kind, control_plane: ControlPlane, contents: Contents
) -> None:
    path = contents.path("configmaps")
    contents.configmap("known", k="v")
    with Place(kind, control_plane) as place, ExitStack() as watches:
        place.wait_up()
        known = contents.path("configmaps", "known")
        assert place.caller().get(known).status == 200
        for number in range(STREAMS):
            query = {"labelSelector": f"job=j{number}", "resourceVersion": "0"}
            watches.enter_context(place.caller().watch(path, query))
        wait_for(lambda: live(place) == STREAMS, timeout=SOON, what="live streams", interval=0.5)
        place.cut()
        before, healed_at = place.link.traffic().connections, time.time()
        with asked_again_and_again(place, known) as answers:
            place.heal()
            wait_for(lambda: live(place) == STREAMS, timeout=SOON, what="live", interval=0.5)
        assert set(answers) == {200}
        opened = place.link.traffic().connections - before
        assert opened <= STREAMS + SHARED
        assert asked(place, "watch", since=healed_at) <= STREAMS
        assert asked(place, "list", since=healed_at) <= 2 * STREAMS
        assert place.relay.log_text().count("stream interrupted") <= 4


def live(place: Place) -> int:
    return sum(stream["state"] == "live" for stream in place.relay.status()["streams"])


def asked(place: Place, verb: str, *, since: float) -> int:
    """Requests of the relay."""
    return place.plane.count_requests(
        verb=verb, resource="configmaps", user_agent="relay-sidecar", since=since
    )


@contextmanager
def asked_again_and_again(place: Place, path: str) -> Iterator[list[int]]:
    """The statuses of GETs of an object, as kubelet's."""
    answers, is_over = list[int](), threading.Event()

    def ask() -> None:
        while not is_over.wait(0.1):
            answers.append(place.caller().get(path).status)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        is_over.set()
        thread.join()
