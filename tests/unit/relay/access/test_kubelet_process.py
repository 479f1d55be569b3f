"""Whose a connection is, as the kernel and systemd tell it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relay_sidecar.access import kubelet_process
from relay_sidecar.access.kubelet_process import (
    Endpoint,
    KubeletProcess,
    PeerSocket,
    find_socket,
    holds,
    main_pid_of,
    peer_socket,
)

UNIT = "kubelet.service"
# proc_pid_net(5); of a machine in whose byte order 127.0.0.1 is 0100007F.
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2936 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0
   1: 0100007F:B9AC 0100007F:2936 01 00000000:00000000 00:00000000 00000000     0        0 200 1 0
   2: 0100007F:2936 0100007F:B9AC 01 00000000:00000000 00:00000000 00000000  1000        0 300 1 0
   3: 0100007F:B9AD 0100007F:2936 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
"""
LISTEN: Endpoint = ("127.0.0.1", 0x2936)


@contextmanager
def connected(host: str) -> Iterator[tuple[socket.socket, Endpoint, Endpoint]]:
    """The client's socket, and both ends as a server sees them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        theirs, peer = server.accept()
        with theirs:
            yield client, peer[:2], theirs.getsockname()[:2]


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is of another machine")
def test_the_clients_end_is_found_and_not_the_servers() -> None:
    assert find_socket(TABLE, local=("127.0.0.1", 0xB9AC), remote=LISTEN) == PeerSocket(0, 200)
    assert find_socket(TABLE, local=("127.0.0.1", 0xB9AE), remote=LISTEN) is None
    assert find_socket(TABLE, local=("127.0.0.2", 0xB9AC), remote=LISTEN) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_kernel_tells_whose_a_connection_is(host: str) -> None:
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with connected(host) as (client, peer, own):
        found = peer_socket(peer, own)
        assert found == PeerSocket(os.getuid(), os.fstat(client.fileno()).st_ino)
        assert found is not None
        assert holds(os.getpid(), found.inode)
        with subprocess.Popen(["sleep", "60"]) as other:
            assert not holds(other.pid, found.inode)
            other.kill()
        assert not holds(other.pid, found.inode)


class Systemd:
    """Knows this main process of any unit."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.asked = 0

    async def main_pid(self, unit: str) -> int:
        assert unit == UNIT
        self.asked += 1
        return self.pid


def is_kubelet(systemd: Systemd, *, times: int = 1) -> set[bool]:
    async def ask() -> set[bool]:
        process = KubeletProcess(UNIT, main_pid=systemd.main_pid)
        with connected("127.0.0.1") as (_, peer, own):
            return {await process.is_at(peer, own) for _ in range(times)}

    return asyncio.run(ask())


@pytest.mark.skipif(os.getuid() != 0, reason="kubelet is root's")
def test_only_the_main_process_of_the_unit_is_kubelet() -> None:
    assert is_kubelet(Systemd(os.getpid())) == {True}
    assert is_kubelet(Systemd(os.getppid())) == {False}
    assert is_kubelet(Systemd(0)) == {False}


@pytest.mark.skipif(os.getuid() != 0, reason="kubelet is root's")
def test_systemd_is_asked_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(number / 10 for number in range(1_000))
    monkeypatch.setattr(kubelet_process, "boottime", lambda: next(times))
    systemd = Systemd(os.getpid())
    assert is_kubelet(systemd, times=35) == {True}
    assert 3 <= systemd.asked <= 4


def test_for_others_than_root_systemd_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_process, "peer_socket", lambda *_: PeerSocket(1000, 1))
    systemd = Systemd(os.getpid())
    assert is_kubelet(systemd) == {False}
    assert systemd.asked == 0


@pytest.mark.parametrize(
    ("script", "pid"),
    [("echo 4711", 4711), ("echo 0", 0), ("echo", 0), ("echo -1", 0), ("echo x", 0), ("exit 1", 0)],
)
def test_what_systemd_says_is_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, pid: int
) -> None:
    command = tmp_path / "systemctl"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert asyncio.run(main_pid_of(UNIT)) == pid


def test_without_systemd_nobody_is_kubelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(main_pid_of(UNIT)) == 0


def test_a_systemd_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "systemctl"
    command.write_text("#!/bin/sh\nexec sleep 60\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kubelet_process, "PATIENCE", 0.2)
    assert asyncio.run(main_pid_of(UNIT)) == 0
