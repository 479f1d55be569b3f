"""Sets routes and rules of the network that it runs in, as iproute2 does; in a container.

`iproute.py route SUBNET GATEWAY`: the way there, whatever it was before. `iproute.py drop ADDRESS`:
what goes through here from or to the address vanishes, without a word to who sent it. `iproute.py
pass ADDRESS`: no more. Fails where the kernel refuses (rtnetlink(7), linux/fib_rules.h).
"""

import ipaddress
import os
import socket
import struct
import sys

# linux/netlink.h
REQUEST, ACK, REPLACE, EXCLUSIVE, CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
ERROR = 2
# linux/rtnetlink.h
NEW_ROUTE, NEW_RULE, DELETE_RULE = 24, 32, 33
MAIN_TABLE, STATIC, UNICAST = 254, 4, 1
ROUTE_TO, ROUTE_BY = 1, 5
# linux/fib_rules.h
BLACKHOLE = 6
RULE_TO, RULE_FROM = 1, 2


def attribute(kind: int, address: str) -> bytes:
    content = ipaddress.IPv4Address(address).packed
    return struct.pack("=HH", 4 + len(content), kind) + content


def ask(kind: int, flags: int, body: bytes) -> None:
    """One request; raises OSError where it is refused."""
    header = struct.pack("=IHHII", 16 + len(body), kind, REQUEST | ACK | flags, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.bind((0, 0))
        kernel.send(header + body)
        answer = kernel.recv(65536)
    told, code = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
    if told == ERROR and code:
        raise OSError(-code, os.strerror(-code))


def message(to: int, from_: int, table: int, *rest: int) -> bytes:
    """struct rtmsg, and struct fib_rule_hdr, which begins as it does."""
    return struct.pack("=8BI", socket.AF_INET, to, from_, 0, table, *rest, 0)


def route(subnet: str, gateway: str) -> None:
    to = ipaddress.IPv4Network(subnet)
    body = message(to.prefixlen, 0, MAIN_TABLE, STATIC, 0, UNICAST)
    body += attribute(ROUTE_TO, str(to.network_address)) + attribute(ROUTE_BY, gateway)
    ask(NEW_ROUTE, CREATE | REPLACE, body)


def rule(kind: int, flags: int, address: str) -> None:
    """Both ways: who is behind a line that is gone neither hears nor is heard."""
    ask(kind, flags, message(32, 0, 0, 0, 0, BLACKHOLE) + attribute(RULE_TO, address))
    ask(kind, flags, message(0, 32, 0, 0, 0, BLACKHOLE) + attribute(RULE_FROM, address))


if __name__ == "__main__":
    word, *rest = sys.argv[1:]
    match word:
        case "route":
            route(*rest)
        case "drop":
            rule(NEW_RULE, CREATE | EXCLUSIVE, *rest)
        case "pass":
            rule(DELETE_RULE, 0, *rest)
        case _:
            sys.exit(f"{word}: route, drop or pass")
