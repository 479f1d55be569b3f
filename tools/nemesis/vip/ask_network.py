"""Runs inside a client's network namespace: asks the network who has an address, again and again.

Each line is one ARP request (RFC 826) and who answered before the next: `{"at": seconds on
CLOCK_BOOTTIME, "owners": [hardware addresses]}`. Two answers are two owners, as a client sees it.
Needs the standard library and CAP_NET_RAW only.
"""

import json
import socket
import struct
import sys
import time

INTERVAL = 0.1
ETH_P_ARP = 0x0806
# Ethernet header; ARP for IPv4 over Ethernet: kinds, operation, sender, target.
FRAME = struct.Struct("!6s6sHHHBBH6s4s6s4s")
REQUEST, REPLY = 1, 2


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def main(interface: str, address: str) -> None:
    wanted = socket.inet_aton(address)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP)) as wire:
        wire.bind((interface, ETH_P_ARP))
        own = wire.getsockname()[4]
        # Sender address 0.0.0.0: a probe (RFC 5227), which changes nobody's tables.
        question = FRAME.pack(
            b"\xff" * 6, own, ETH_P_ARP, 1, 0x0800, 6, 4, REQUEST, own, bytes(4), bytes(6), wanted
        )
        while True:
            at = boottime()
            try:
                wire.send(question)
            except OSError:  # the interface is down: nobody answers
                time.sleep(INTERVAL)
            owners = sorted(answers(wire, wanted, until=at + INTERVAL))
            print(json.dumps({"at": at, "owners": owners}), flush=True)


def answers(wire: socket.socket, wanted: bytes, *, until: float) -> set[str]:
    owners = set()
    while (left := until - boottime()) > 0:
        wire.settimeout(left)
        try:
            frame = wire.recv(2048)
        except OSError:
            break
        if len(frame) < FRAME.size:
            continue
        words = FRAME.unpack_from(frame)
        operation, sender, its_address = words[7:10]
        # A reply to this question; announcements (gratuitous ARP) have another target.
        if operation == REPLY and its_address == wanted and words[10] == wire.getsockname()[4]:
            owners.add(sender.hex(":"))
    return owners


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
