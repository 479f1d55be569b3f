"""A loopback port that stays ours while nobody listens on it.

Guarantees: until `release`, the kernel gives the port to no other program as a free or an
outgoing one, so that a server can be stopped and started on the same port; a connection made
meanwhile is refused. Works since Linux lets a socket with SO_REUSEADDR listen on a port to
which another one is bound that does not listen; servers in Go and asyncio set that option.
"""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


class Reservation:
    """Holds one free TCP port of 127.0.0.1, or the one that is asked for."""

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, port))
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Gives the port back."""
        self._socket.close()
