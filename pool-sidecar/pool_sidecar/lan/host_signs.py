"""Whether the host of a peer lives, where its member says nothing: what its kernel answers.

Two signs that a firewall on the members' port does not take away, and that need no right. They are
ICMP's answer to a datagram for a port on which nothing listens, and on the same subnet the answers
to the kernel's own ARP or NDP. Guarantees: An ICMP message counts only if the peer itself sent it,
a router's says nothing. An entry of the neighbour table counts as a sign only if it was confirmed
after the peer fell silent, and as none only once its host did not answer the kernel's questions.
"""

import errno
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from pool_sidecar.core.peers import ROUND, Sign

# traceroute's first port (traceroute(8)): nothing listens there, as hosts and people expect.
CLOSED_PORT: Final = 33434
# linux/in.h, in6.h and errqueue.h; Python has no names for them.
_RECVERR: Final = {
    socket.AF_INET: (socket.IPPROTO_IP, 11),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 25),
}
_ICMP_ORIGINS: Final = (2, 3)
# Bytes: struct sock_extended_err, and up to the address in the sockaddr that follows it.
_EXTENDED_ERR: Final = 16
_ADDRESS_AT: Final = {socket.AF_INET: slice(20, 24), socket.AF_INET6: slice(24, 40)}
# linux/rtnetlink.h, neighbour.h.
_ROUTE_GET, _ROUTE, _NEIGH_GET, _NEIGH, _REQUEST = 26, 24, 30, 28, 1
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_VIA = 1, 4, 5, 18
_NDA_DST, _NDA_CACHEINFO = 1, 3
_INCOMPLETE, _REACHABLE, _STALE, _DELAY, _PROBE = 0x01, 0x02, 0x04, 0x08, 0x10
_ANSWERS: Final = _REACHABLE | _STALE | _DELAY | _PROBE
_HEADER: Final = struct.Struct("=IHHII")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_DATAGRAM: Final = 65536
# Messages of one queue that are read at once: one is asked for in each round.
_MOST: Final = 16


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry of the kernel's table. `answers`: its host was there when the kernel last asked, and
    may be asked again; `confirmed`: so many seconds ago it was known to be."""

    answers: bool
    confirmed: float


class HostSigns:
    """Of the host at one address."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._packed = ip_address(address).packed
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._sock: socket.socket | None = None
        # The neighbour table showed it alive after it fell silent.
        self._is_shown = False

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def ask(self) -> None:
        """A datagram; the answer takes some time."""
        with suppress(OSError):  # Without a route or descriptors there is no sign.
            if self._sock is None:
                self._sock = self._connected()
            try:
                self._sock.send(b"\0")
            except ConnectionRefusedError:
                # The answer to the one before, which is read from the queue.
                self._sock.send(b"\0")

    def sign(self, unheard_since: float, now: float) -> Sign:
        """`unheard_since`: when the first round ended without a sign."""
        if self._has_answered():
            return Sign.HOST_LIVES
        found = neighbour(self._address)
        if found is None or not found.answers:
            self._is_shown = False
            return Sign.NONE
        # What other connections heard before it fell silent may be noted some seconds later.
        if now - found.confirmed > unheard_since + 2 * ROUND:
            self._is_shown = True
        return Sign.HOST_LIVES if self._is_shown else Sign.UNPROVEN

    def _connected(self) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(*_RECVERR[self._family], 1)
            sock.connect((self._address, CLOSED_PORT))
        except BaseException:
            sock.close()
            raise
        return sock

    def _has_answered(self) -> bool:
        """Since it was asked last."""
        if self._sock is None:
            return False
        found = False
        with suppress(OSError):  # The queue is empty.
            for _ in range(_MOST):
                _, errors, _, _ = self._sock.recvmsg(1, 256, socket.MSG_ERRQUEUE)
                found = found or any(self._is_its_own(*it) for it in errors)
        return found

    def _is_its_own(self, level: int, kind: int, data: bytes) -> bool:
        """Whether the peer itself sent it: struct sock_extended_err, then who did."""
        if (level, kind) != _RECVERR[self._family] or len(data) < _EXTENDED_ERR:
            return False
        return data[4] in _ICMP_ORIGINS and data[_ADDRESS_AT[self._family]] == self._packed


def neighbour(address: str) -> Neighbour | None:
    """The kernel's entry for a host on a subnet of this node; None where there is none, also for
    one behind a router."""
    packed = ip_address(address).packed
    family = socket.AF_INET6 if len(packed) > 4 else socket.AF_INET
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
            sock.setblocking(False)
            body = struct.pack("=BBBBBBBBI", family, 8 * len(packed), 0, 0, 0, 0, 0, 0, 0)
            route = _asked(sock, _ROUTE_GET, _ROUTE, body, _RTA_DST, packed)
            if route is None or _RTA_OIF not in route or {_RTA_GATEWAY, _RTA_VIA} & route.keys():
                return None
            (interface,) = struct.unpack("=i", route[_RTA_OIF])
            body = struct.pack("=BBHiHBB", family, 0, 0, interface, 0, 0, 0)
            found = _asked(sock, _NEIGH_GET, _NEIGH, body, _NDA_DST, packed)
    except (OSError, struct.error):
        return None
    if found is None or _NDA_CACHEINFO not in found:
        return None
    (state,) = struct.unpack_from("=H", found[_BODY], 8)
    (confirmed,) = struct.unpack_from("=I", found[_NDA_CACHEINFO])
    return Neighbour(bool(state & _ANSWERS), confirmed / _TICKS)


# Under which `_asked` gives what comes before the attributes.
_BODY: Final = -1


def _asked(
    sock: socket.socket, kind: int, wanted: int, body: bytes, attribute: int, value: bytes
) -> dict[int, bytes] | None:
    """`kind`, `wanted`: of the request and of its answer, which begin alike. The attributes of the
    answer, which the kernel gives before `send` returns; None where it refuses. Raises OSError,
    struct.error."""
    content = body + struct.pack("=HH", 4 + len(value), attribute) + value
    sock.send(_HEADER.pack(_HEADER.size + len(content), kind, _REQUEST, 1, 0) + content)
    answer = sock.recv(_DATAGRAM)
    length, kind, *_ = _HEADER.unpack_from(answer)
    if kind != wanted:
        return None
    at = _HEADER.size + len(body)
    found = {_BODY: answer[_HEADER.size : at]}
    while at + 4 <= min(length, len(answer)):
        length_of, name = struct.unpack_from("=HH", answer, at)
        if length_of < 4:
            raise OSError(errno.EBADMSG, "an attribute of netlink without a length")
        found[name] = answer[at + 4 : at + length_of]
        at += (length_of + 3) & ~3
    return found
