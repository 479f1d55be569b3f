"""A relay as a service of systemd (Type=notify, WatchdogSec=), without systemd."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.relay import RelayProcess


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path}/notify"


@pytest.fixture
def heard(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as it:
        it.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        it.settimeout(10)
        yield it


def test_systemd_hears_when_it_serves_lives_and_stops(
    control_plane: ControlPlane, heard: socket.socket, address: str
) -> None:
    relay = RelayProcess(
        [f"--kubeconfig={control_plane.admin_kubeconfig()}"],
        environ={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"},
    )
    try:
        relay.start(wait=False)
        assert heard.recv(100) == b"READY=1"
        assert relay.readyz() == 200
        for _ in range(5):
            assert heard.recv(100) == b"WATCHDOG=1"
        relay.freeze()
        heard.settimeout(1)
        with suppress(TimeoutError):
            while heard.recv(100):
                pass
        with pytest.raises(TimeoutError):
            heard.recv(100)
        relay.thaw()
        heard.settimeout(10)
        assert heard.recv(100) == b"WATCHDOG=1"
        assert relay.terminate() == 0
        heard.setblocking(False)
        last = b""
        with suppress(BlockingIOError):
            while True:
                last = heard.recv(100)
        assert last == b"STOPPING=1"
    finally:
        relay.stop()
