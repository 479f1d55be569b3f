"""Runs inside a network namespace: prints a line for each time an address comes and goes.

`{"at": seconds on CLOCK_BOOTTIME, "owned": true}`, the first for the state at the start. Told by
the kernel (rtnetlink), so nothing between two looks is missed. Needs the standard library only.
"""

import json
import socket
import struct
import sys
import time

# linux/rtnetlink.h, linux/if_addr.h
RTMGRP_IPV4_IFADDR = 0x10
RTM_NEWADDR, RTM_DELADDR = 20, 21
IFA_LOCAL = 2
# struct nlmsghdr, struct ifaddrmsg, struct rtattr
HEADER, MESSAGE, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBi"), struct.Struct("=HH")


def say(owned: bool) -> None:
    line = {"at": time.clock_gettime(time.CLOCK_BOOTTIME), "owned": owned}
    print(json.dumps(line), flush=True)


def is_local(address: str) -> bool:
    """The kernel binds to its own addresses only."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def aligned(length: int) -> int:
    return (length + 3) & ~3


def changes(datagram: bytes, address: bytes) -> list[bool]:
    """True for each message that adds the address, False for each that takes it off."""
    found = []
    while len(datagram) >= HEADER.size:
        length, kind, _, _, _ = HEADER.unpack_from(datagram)
        at = HEADER.size + MESSAGE.size
        while kind in (RTM_NEWADDR, RTM_DELADDR) and at + ATTRIBUTE.size <= length:
            size, name = ATTRIBUTE.unpack_from(datagram, at)
            if name == IFA_LOCAL and datagram[at + ATTRIBUTE.size : at + size] == address:
                found.append(kind == RTM_NEWADDR)
            at += aligned(size)
        datagram = datagram[aligned(length) :]
    return found


def main(address: str) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as events:
        events.bind((0, RTMGRP_IPV4_IFADDR))
        say(is_local(address))
        while True:
            for owned in changes(events.recv(65536), socket.inet_aton(address)):
                say(owned)


if __name__ == "__main__":
    main(sys.argv[1])
