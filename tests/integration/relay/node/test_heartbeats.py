"""What says that the node lives waits for the link, for as long as its client does, and is sent
once; nothing else waits.
"""

import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest

from tests.integration.relay.node.node_place import NODE, NodePlace, allow_nodes
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import Caller, Reply
from tools.harness.relay_objects import Contents

NAME = NODE.removeprefix("system:node:")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE, STATUS = f"{LEASES}/{NAME}", f"/api/v1/nodes/{NAME}/status"
KUBELETS = "?timeout=10s"
# Seconds; more than a quick refusal takes on a busy machine, less than a request waits.
QUICK = 3.0


@pytest.fixture(scope="module")
def place(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodePlace]:
    allow_nodes(control_plane)
    admin = control_plane.admin
    admin.post("/api/v1/namespaces", {"metadata": {"name": "kube-node-lease"}})
    admin.post("/api/v1/nodes", {"metadata": {"name": NAME}})
    admin.post(LEASES, {"metadata": {"name": NAME}, "spec": {"holderIdentity": NAME}})
    with NodePlace(control_plane, tmp_path_factory.mktemp("node")) as it:
        yield it


@pytest.fixture
def kubelet(place: NodePlace) -> Iterator[Caller]:
    yield place.caller(place.pair)
    place.link.heal()
    place.relay.wait_link(up=True)


class Waiting:
    """A request on a thread of its own."""

    def __init__(self, ask: Callable[[], Reply]) -> None:
        self.reply: Reply | None = None
        self._ask = ask
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.reply = self._ask()

    def answer(self) -> Reply:
        self._thread.join(20)
        assert self.reply is not None
        return self.reply


def renewal(kubelet: Caller, holder: str, query: str = KUBELETS) -> Callable[[], Reply]:
    lease = kubelet.get(LEASE).expect()
    lease["spec"]["holderIdentity"] = holder
    return lambda: kubelet.put(f"{LEASE}{query}", lease)


def sent(place: NodePlace, verb: str, path: str, since: float) -> int:
    """How often it came to the API server."""
    found = place.plane.audit(user=NODE, verb=verb)
    return sum(event.request_uri.startswith(path) for event in found)


def test_the_nodes_lease_and_status_wait_for_the_link_and_are_sent_once(
    place: NodePlace, kubelet: Caller
) -> None:
    ask = renewal(kubelet, "waited")
    before = sent(place, "update", LEASE, 0)
    place.cut()
    status = {"status": {"nodeInfo": {"machineID": "waited"}}}
    waiting = [
        Waiting(ask),
        Waiting(lambda: kubelet.get(f"{LEASE}{KUBELETS}")),
        Waiting(lambda: kubelet.patch(f"{STATUS}{KUBELETS}", status)),
    ]
    time.sleep(1.0)
    assert [it.reply for it in waiting] == [None, None, None]
    place.link.heal()
    assert [it.answer().status for it in waiting] == [200, 200, 409]
    assert sent(place, "update", LEASE, 0) == before + 1
    assert kubelet.get(LEASE).json()["spec"]["holderIdentity"] == "waited"
    # Kubelet made it from what it read before the outage: it reads the newest Node now.
    shown = kubelet.get(f"/api/v1/nodes/{NAME}").json()
    assert "waited" not in str(shown["status"])
    assert kubelet.patch(f"{STATUS}{KUBELETS}", status).status == HTTPStatus.OK


def test_what_its_client_gave_up_is_not_sent(place: NodePlace, kubelet: Caller) -> None:
    """Neither after the time that it names, nor after it has gone."""
    asks = [renewal(kubelet, "late", "?timeout=1s"), renewal(kubelet, "gone")]
    before = sent(place, "update", LEASE, 0)
    place.cut()
    reply = Waiting(asks[0]).answer()
    assert reply.status == HTTPStatus.SERVICE_UNAVAILABLE
    lease = '{"metadata":{"name":"x"}}'
    with kubelet.connected() as connection:
        connection.request("PUT", f"{LEASE}{KUBELETS}", lease, {"Content-Type": "application/json"})
        time.sleep(1.0)
    place.link.heal()
    place.relay.wait_link(up=True)
    time.sleep(1.0)
    assert sent(place, "update", LEASE, 0) == before


def test_nothing_else_waits(place: NodePlace, kubelet: Caller, contents: Contents) -> None:
    contents.configmap("a")
    place.cut()
    other = f"{LEASES}/another{KUBELETS}"
    for path in (other, f"{contents.path('configmaps', 'a')}{KUBELETS}", f"/api/v1/nodes/{NAME}"):
        began = time.monotonic()
        reply = kubelet.put(path, {"metadata": {"name": "a"}})
        assert reply.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert time.monotonic() - began < QUICK
