"""R6: a write is sent or refused, once; what became of one that got no answer is not known and is
said to be so."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from edge_sidecars.kubeapi.transport import POOLED_FOR_WRITES
from tests.integration.relay.conftest import check_logs
from tests.integration.relay.place import Kind, Place
from tests.integration.relay.upstream import RELAY, requests, verbs
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Json, Reply
from tools.harness.relay_objects import Contents

METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
methods = pytest.mark.parametrize("method", METHODS)
# Seconds; no probe comes between the fault and the write.
NEVER = "--probe-interval=60s"
SOON = 20.0
# Seconds in which a write that waits has the link looked at.
NOTICED = 2.8


@pytest.fixture
def unwatched(control_plane: ControlPlane) -> Iterator[Place]:
    """A relay that does not know the state of its link from anything but its requests, and gives
    up soon."""
    with Place(Kind.RELAY, control_plane, flags=[NEVER, "--request-timeout=1s"]) as place:
        yield place
        check_logs(place)


def write(place: Place, contents: Contents, method: str) -> Reply:
    """One write of the ConfigMap "a"; everything but a creation needs it to be there."""
    path = contents.path("configmaps") + ("" if method == "POST" else "/a")
    body: Json = {"metadata": {"name": "a"}, "data": {"key": "new"}}
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    return place.caller().ask(path, method=method, body=body, headers={"Content-Type": kind})


def prepare(place: Place, contents: Contents, method: str) -> None:
    if method != "POST":
        contents.configmap("a", key="old")
    # A connection that is kept may be used again, a dead one too.
    path = contents.path("configmaps")
    # Which gives up soon, and the API server may be slow once.
    wait_for(lambda: place.caller().get(path).status == 200, timeout=SOON, what="an answer")


@methods
def test_r6_a_write_whose_answer_is_lost_is_an_unknown_outcome_and_is_not_sent_again(
    one_relay: Place, contents: Contents, method: str
) -> None:
    """The link is found to be broken while the write waits."""
    prepare(one_relay, contents, method)
    one_relay.link.lose_response()
    reply = write(one_relay, contents, method)
    one_relay.heal()
    assert_unknown(one_relay, contents, method, reply)


@methods
def test_r6_a_write_whose_connection_breaks_is_an_unknown_outcome_and_is_not_sent_again(
    unwatched: Place, contents: Contents, method: str
) -> None:
    prepare(unwatched, contents, method)
    unwatched.link.lose_response(reset=True)
    reply = write(unwatched, contents, method)
    unwatched.link.heal()
    assert_unknown(unwatched, contents, method, reply)


def test_r6_a_write_that_waits_makes_the_relay_look_at_its_link(
    unwatched: Place, contents: Contents
) -> None:
    """And is given up once the link is known to be down."""
    prepare(unwatched, contents, "PATCH")
    unwatched.link.lose_response()
    reply = write(unwatched, contents, "PATCH")
    unwatched.relay.wait_link(up=False)
    # WAITING, and two probes that time out; a busy machine takes as long again.
    assert reply.seconds < 2 * NOTICED
    unwatched.link.heal()
    assert_unknown(unwatched, contents, "PATCH", reply)


def assert_unknown(place: Place, contents: Contents, method: str, reply: Reply) -> None:
    """Said to be so, and sent exactly once, whatever the relay had time for since."""
    status = reply.expect(504)
    assert (status["kind"], status["reason"]) == ("Status", "Timeout")
    # client-go would send it again.
    assert reply.headers["Retry-After"] is None
    assert "retryAfterSeconds" not in status.get("details", {})
    time.sleep(0.5)
    seen = verbs(requests(place.plane, contents.namespace))
    assert seen.count(METHODS[method]) == 1, seen


@methods
@pytest.mark.parametrize("fault", [FaultProxy.refuse, FaultProxy.reset, FaultProxy.black_hole])
def test_r6_a_write_that_was_not_sent_is_unavailable_and_was_not_sent(
    unwatched: Place, contents: Contents, method: str, fault: Callable[[FaultProxy], None]
) -> None:
    prepare(unwatched, contents, method)
    fault(unwatched.link)
    # Into a connection that answered a moment ago it would be sent; a relay that answers has read
    # what had come before the fault.
    wait_for(lambda: unwatched.relay.readyz() == 200, timeout=SOON, what="an answer")
    time.sleep(POOLED_FOR_WRITES)
    reply = write(unwatched, contents, method)
    status = reply.expect(503)
    assert (status["kind"], status["reason"]) == ("Status", "ServiceUnavailable")
    # The link is known to be down: client-go would wait for it in vain.
    assert reply.headers["Retry-After"] is None
    unwatched.link.heal()
    assert METHODS[method] not in verbs(requests(unwatched.plane, contents.namespace))


def test_r6_a_write_that_follows_another_into_a_black_hole_is_not_said_to_be_unsent(
    unwatched: Place, contents: Contents
) -> None:
    """Unless it took a connection of its own, and was not."""
    contents.configmap("a", key="old")
    assert write(unwatched, contents, "PATCH").status == 200
    unwatched.link.black_hole()
    reply = write(unwatched, contents, "PATCH")
    assert reply.status in (503, 504), reply.body
    assert reply.status == 503 or reply.headers["Retry-After"] is None
    unwatched.link.heal()
    time.sleep(0.5)
    late = verbs(requests(unwatched.plane, contents.namespace)).count("patch") - 1
    # What was on its way may arrive when nobody waits any more, but only once.
    assert late <= (reply.status == 504)


def test_writes_that_follow_each_other_share_a_connection(
    unwatched: Place, contents: Contents
) -> None:
    contents.configmap("a", key="old")
    before, pauses = unwatched.link.traffic().connections, 0
    for _ in range(20):
        began = time.monotonic()
        assert write(unwatched, contents, "PATCH").status == 200
        # Where the machine made it wait, the next one does not follow closely.
        pauses += time.monotonic() - began > POOLED_FOR_WRITES / 2
    assert unwatched.link.traffic().connections - before < 10 + pauses


def test_r6_a_write_that_was_answered_late_is_answered(
    unwatched: Place, contents: Contents
) -> None:
    contents.configmap("a", key="old")
    unwatched.link.delay(0.15)
    assert write(unwatched, contents, "PATCH").expect()["data"] == {"key": "new"}
    unwatched.link.heal()
    seen = verbs(requests(unwatched.plane, contents.namespace))
    assert seen.count("patch") == 1


def test_r6_writes_over_a_flaky_link_are_made_at_most_once(
    one_relay: Place, contents: Contents
) -> None:
    """Creations with generated names: a repeated one would be an object too many."""
    path = contents.path("configmaps")
    ended = threading.Event()
    refused = [0]

    def shake() -> None:
        while not ended.wait(0.15):
            one_relay.link.reset()
            one_relay.link.heal()

    shaking = threading.Thread(target=shake)
    shaking.start()
    made, unknown = [], 0
    try:
        for _ in range(150):
            reply = one_relay.caller().post(path, {"metadata": {"generateName": "g-"}})
            if reply.status == 201:
                made.append(reply.json()["metadata"]["name"])
            elif reply.status == 504:
                unknown += 1
            else:
                reply.expect(503)
                refused[0] += 1
    finally:
        ended.set()
        shaking.join()
    assert made
    standing = {item["metadata"]["name"] for item in contents.list("configmaps")["items"]}
    assert set(made) <= standing
    assert len(standing) <= len(made) + unknown, (len(made), unknown, refused)


def test_r6_what_was_written_before_a_cut_is_known_in_it(
    one_relay: Place, contents: Contents
) -> None:
    """Read-your-writes through the relay, also when the stream had no time to tell of it."""
    caller, path = one_relay.caller(), contents.path("configmaps")
    contents.configmap("a", key="old")
    caller.get(path, {"resourceVersion": contents.version()}).expect()
    written = caller.patch(f"{path}/a", {"data": {"key": "new"}}).expect()
    one_relay.link.refuse()
    for query in ({}, {"resourceVersion": "0"}):
        said = caller.get(f"{path}/a", query)
        assert said.expect() == written


@pytest.mark.parametrize("accept", ["application/json", "application/vnd.kubernetes.protobuf"])
def test_r6_what_was_deleted_before_a_cut_is_not_told_in_it(
    one_relay: Place, contents: Contents, accept: str
) -> None:
    caller, path = one_relay.caller(), contents.path("configmaps", "a")
    contents.configmap("a")
    caller.get(path).expect()
    reply = caller.ask(path, method="DELETE", headers={"Accept": accept})
    assert (reply.status, reply.headers["Content-Type"]) == (200, accept)
    one_relay.cut()
    assert caller.get(path).status == 503


def test_r6_what_was_deleted_with_others_before_a_cut_is_not_told_in_it(
    one_relay: Place, contents: Contents
) -> None:
    caller, path = one_relay.caller(), contents.path("configmaps")
    for name in ("a", "b"):
        contents.configmap(name, labels={"of": name})
        caller.get(f"{path}/{name}").expect()
    caller.ask(f"{path}?labelSelector=of%3Da", method="DELETE").expect()
    one_relay.cut()
    assert caller.get(f"{path}/a").status == 503
    assert caller.get(f"{path}/b").status == 200


def test_r2_a_deletion_that_was_only_tried_is_waited_for_by_nobody(
    one_relay: Place, contents: Contents
) -> None:
    """Else each answer from the stream would have to be asked for upstream, for ever."""
    caller, path = one_relay.caller(), contents.path("configmaps")
    contents.configmap("a")
    caller.get(path, {"resourceVersion": contents.version()}).expect()
    caller.ask(f"{path}/a", method="DELETE", body={"dryRun": ["All"]}).expect()
    began = time.time()

    assert caller.get(path, {"resourceVersion": "0"}).names == ["a"]
    asked = requests(one_relay.plane, contents.namespace, since=began)
    assert not [each for each in asked if not each.user_agent.startswith(RELAY)]
