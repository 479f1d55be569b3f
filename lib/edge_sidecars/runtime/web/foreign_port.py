"""Connections of a port that another library accepts, as gRPC does.

Knows nothing of the library: it looks at the sockets that this process has open, and only counts.
Guarantee: no connection is touched, whatever becomes of it meanwhile.
"""

import os
import socket
from collections import Counter
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from weakref import WeakSet

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web.places import peer_of

_DESCRIPTORS = "/proc/self/fd"


class ForeignPort:
    """`limit`: of its connections, which the library keeps."""

    def __init__(self, bound: Address, limit: int) -> None:
        self.bound = bound
        self.limit = limit

    def peers(self) -> Counter[str]:
        """How many each address has, `places.LOCAL` for this machine's loopback. Takes some 10 µs
        for each descriptor of the process."""
        found: Counter[str] = Counter()
        for name in os.listdir(_DESCRIPTORS):
            with suppress(OSError):  # gone meanwhile, or no connection
                if os.readlink(f"{_DESCRIPTORS}/{name}").startswith("socket:"):
                    found.update(_peer(int(name), self.bound.port))
        return found

    @property
    def taken(self) -> int:
        return self.peers().total()


# Those that are open.
FOREIGN_PORTS: "WeakSet[ForeignPort]" = WeakSet()


def _peer(descriptor: int, port: int) -> list[str]:
    """Of a connection that came to the port, else none. Raises OSError."""
    # A copy: the library may close its own at any moment.
    copy = os.dup(descriptor)
    try:
        sock = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with sock:
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.getsockname()[1] != port:
            return []
        return [peer_of(_plain(sock.getpeername()))]


def _plain(address: tuple[object, ...]) -> tuple[object, ...]:
    """A client of IPv4 by its own address, also on a socket of both families."""
    host = ip_address(str(address[0]).partition("%")[0])
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return (str(mapped or host), *address[1:])
