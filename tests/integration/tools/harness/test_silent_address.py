"""Where no host lives, nobody is accepted or refused; afterwards a server may listen there."""

import socket
import time

import pytest

from pool_sidecar.core.peers import Sign
from pool_sidecar.lan.host_signs import CLOSED_PORT, HostSigns
from tools.harness.pods.wire.silent_address import SilentAddress

pytestmark = pytest.mark.long

ADDRESS = "127.0.79.1"


def test_a_silent_address_lets_connections_time_out_until_it_is_closed() -> None:
    with socket.create_server((ADDRESS, 0)) as server:
        port: int = server.getsockname()[1]
        with socket.create_connection((ADDRESS, port), 5):
            pass
    silence = SilentAddress(ADDRESS, port)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            socket.create_connection((ADDRESS, port), 0.3)
    silence.close()
    with (
        socket.create_server((ADDRESS, port)),
        socket.create_connection((ADDRESS, port), 5),
    ):
        pass


def test_a_member_finds_no_sign_of_a_host_at_a_silent_address_until_it_is_closed() -> None:
    with socket.create_server((ADDRESS, 0)) as server:
        port: int = server.getsockname()[1]
    silence = SilentAddress(ADDRESS, port, datagrams=(CLOSED_PORT,))
    signs = HostSigns(ADDRESS)
    assert [_sign(signs) for _ in range(3)] == [Sign.NONE] * 3
    silence.close()
    assert _sign(signs) is Sign.HOST_LIVES
    signs.close()


def _sign(signs: HostSigns) -> Sign:
    """As a member's round has it: what was asked is answered before the next look."""
    signs.ask()
    time.sleep(0.1)
    return signs.sign(0.0, 1.0)
