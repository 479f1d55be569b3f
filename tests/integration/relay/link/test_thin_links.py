"""Rule 3.11: over a link with long round trips, losses or little bandwidth the relay comes up, and
stays up while it carries bytes, from a fresh start, after a restart and after a cut.

The link is a proxy that delays each byte. Its kernel accepts connections at once, so that a
connection takes a round trip less than on a wire.
"""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller
from tools.harness.relay_objects import Contents

pytestmark = [pytest.mark.long, pytest.mark.slow]

# Seconds that the relay is given besides its round trips, and for a machine that is busy.
BESIDES, BUSY = 2.0, 2.0
ROUND_TRIPS = 5
# Objects of a list that takes a minute, and the bytes of each, which do not compress well.
COUNT, SIZE = 40, 20_000


@dataclass(frozen=True)
class Thin:
    """A round trip in seconds, the share of lost segments, bytes a second."""

    round_trip: float
    loss: float = 0.0
    bandwidth: float | None = None

    def apply(self, link: FaultProxy) -> None:
        link.be_slow(round_trip=self.round_trip, loss=self.loss, bandwidth=self.bandwidth)

    @property
    def comes_up_within(self) -> float:
        return ROUND_TRIPS * self.round_trip + BESIDES + BUSY


LINKS = {
    "0.3s": Thin(0.3),
    "0.7s": Thin(0.7),
    "2s": Thin(2.0),
    "20kB/s": Thin(0.1, bandwidth=20_000),
    "0.7s-5%-20kB/s": Thin(0.7, loss=0.05, bandwidth=20_000),
}


@pytest.fixture(params=tuple(LINKS))
def thin(request: pytest.FixtureRequest) -> Thin:
    return LINKS[request.param]


@contextmanager
def relay_over(plane: ControlPlane, link: FaultProxy, folder: Path) -> Iterator[RelayProcess]:
    flags = [f"--kubeconfig={plane.admin_kubeconfig(server=link.url)}"]
    relay = RelayProcess(flags, data_dir=folder / "data")
    try:
        yield relay
    finally:
        relay.stop()


def test_r11_a_thin_link_comes_up_from_each_beginning(
    control_plane: ControlPlane, contents: Contents, thin: Thin, tmp_path: Path
) -> None:
    contents.configmap("kept", k="v")
    path = f"/api/v1/namespaces/{contents.namespace}/configmaps"
    with FaultProxy(control_plane.port) as link, relay_over(control_plane, link, tmp_path) as relay:
        thin.apply(link)
        relay.start()
        relay.wait_link(up=True, timeout=thin.comes_up_within)
        client = Caller(relay.url)
        # Nothing is known of it yet: upstream is waited for.
        assert names(client, path) == ["kept"]

        relay.kill()
        relay.start()
        relay.wait_link(up=True, timeout=thin.comes_up_within)
        assert names(client, path) == ["kept"]

        link.refuse()
        relay.wait_link(up=False)
        thin.apply(link)
        relay.wait_link(up=True, timeout=thin.comes_up_within)
        # By what watches and writes of now.
        contents.configmap("later", k="v")
        deadline = time.monotonic() + 10 * thin.round_trip + 15
        while names(client, path) != ["kept", "later"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_r11_a_thin_link_stays_up_while_it_is_full(
    control_plane: ControlPlane, contents: Contents, tmp_path: Path
) -> None:
    """A list takes a minute of all of the link; the verdict is watched for the whole time."""
    for number in range(COUNT):
        contents.configmap(f"big-{number}", k=secrets.token_urlsafe(SIZE)[:SIZE])
    path = f"/api/v1/namespaces/{contents.namespace}/configmaps"
    with FaultProxy(control_plane.port) as link, relay_over(control_plane, link, tmp_path) as relay:
        Thin(0.7, bandwidth=20_000).apply(link)
        relay.start()
        relay.wait_link(up=True, timeout=LINKS["0.7s"].comes_up_within)
        downs: list[float] = []
        ended = threading.Event()

        def observe() -> None:
            while not ended.wait(0.1):
                if not relay.is_link_up:
                    downs.append(time.monotonic())

        observer = threading.Thread(target=observe)
        observer.start()
        try:
            reply = Caller(relay.url).ask(path, timeout=150)
        finally:
            ended.set()
            observer.join()
        assert len([name for name in reply.names if name.startswith("big-")]) == COUNT
        assert not downs


def names(client: Caller, path: str) -> list[str]:
    reply = client.ask(path, timeout=60)
    assert reply.status == HTTPStatus.OK, reply.body
    return sorted(set(reply.names) & {"kept", "later"})
