"""Where no host lives, nobody is accepted or refused; afterwards a server may listen there."""

import socket

import pytest

from tools.harness.pods.wire.silent_address import SilentAddress

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
