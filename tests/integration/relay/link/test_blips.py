"""R6: the first moments of an outage. No client is asked to come again once the link is known to be
down, so that kubectl ends at once; a read that falls into a short blip is answered all the same."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from relay_sidecar.upstream.link_probe import BLIP
from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.peers.kubectl import Kubectl
from tools.harness.pods.wire.caller import Reply
from tools.harness.relay_objects import Contents

# Seconds; a third of what client-go took with Retry-After, on a machine with a load of ten.
QUICK = 3.0

faults = pytest.mark.parametrize(
    "fault",
    [FaultProxy.refuse, FaultProxy.reset, FaultProxy.black_hole],
    ids=lambda it: it.__name__,
)


@pytest.fixture
def place(control_plane: ControlPlane) -> Iterator[Place]:
    with Place(Kind.RELAY, control_plane) as own:
        own.wait_up()
        yield own


def assert_final(reply: Reply) -> None:
    """A refusal after which client-go gives up."""
    status = reply.expect(503)
    assert reply.headers["Retry-After"] is None, status
    assert "retryAfterSeconds" not in status.get("details", {})


@faults
@pytest.mark.parametrize("life", ["running", "restarted", "just started"])
def test_r6_from_the_verdict_on_what_is_unknown_and_writes_are_refused_at_once(
    place: Place, contents: Contents, fault: Callable[[FaultProxy], None], life: str
) -> None:
    fault(place.link)
    if life != "running":
        place.relay.kill()
        place.relay.start()
    if life != "just started":
        place.relay.wait_link(up=False)
    unknown, caller = contents.path("services"), place.caller()
    # What comes first may wait for the verdict; all that follow together for the end of a blip.
    caller.get(unknown)
    began_at = time.monotonic()
    for path in (unknown, f"{unknown}/a", "/apis/example.com/v1", contents.path("pods")):
        assert_final(caller.get(path))
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    assert_final(caller.post(contents.path("configmaps"), body))
    assert_final(caller.patch(contents.path("configmaps", "a"), {"data": {"k": "w"}}))
    assert time.monotonic() - began_at < BLIP + QUICK


@pytest.mark.parametrize(
    "fault", [FaultProxy.refuse, FaultProxy.black_hole], ids=["refused", "hole"]
)
def test_r6_kubectl_is_answered_at_once_in_the_first_moments_of_a_cut(
    place: Place, contents: Contents, fault: Callable[[FaultProxy], None]
) -> None:
    kubeconfig = place.kubeconfig()
    with Kubectl(kubeconfig, contents.namespace) as kubectl:
        kubectl.run("get", "configmaps").expect()
        fault(place.link)
        place.relay.wait_link(up=False)
        for command in (("get", "services"), ("get", "all"), ("create", "configmap", "a")):
            began_at = time.monotonic()
            said = kubectl.run(*command)
            assert said.status != 0
            assert "upstream is out of reach" in said.errors
            assert time.monotonic() - began_at < QUICK


def test_r6_a_read_that_falls_into_a_blip_is_answered(place: Place, contents: Contents) -> None:
    """Refused for less than `BLIP`; each of the reads begins in it."""
    contents.create("services", "a", spec={"ports": [{"port": 80}]})
    path, caller = contents.path("services"), place.caller
    for _ in range(3):
        place.link.refuse()
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(caller().get, f"{path}/a") for _ in range(8)]
            time.sleep(BLIP / 3)
            place.link.heal()
            assert {it.result().status for it in asked} == {200}
        place.wait_up()


def test_r6_a_write_in_a_blip_may_be_sent_again(place: Place, contents: Contents) -> None:
    """Only where upstream is there again, or it is not known yet that it is not."""
    place.link.refuse()
    with ThreadPoolExecutor(1) as pool:
        body = {"metadata": {"name": "a"}}
        asked = pool.submit(place.caller().post, contents.path("configmaps"), body)
        time.sleep(BLIP / 3)
        place.link.heal()
        reply = asked.result()
    if reply.status == 503:
        assert int(reply.headers["Retry-After"]) >= 1
        place.wait_up()
        reply = place.caller().post(contents.path("configmaps"), body)
    assert reply.status == 201
