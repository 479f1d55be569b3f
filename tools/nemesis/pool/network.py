"""The networks of a site: one LAN for all nodes, and for each node a link of its own to the cloud.

Owns the namespaces of nodes and cloud, and removes them with everything in them. Guarantees: what
is lost is lost as packets are, without a word to either end; a pair of nodes may be parted in one
direction alone; what several faults hold broken is whole when the last one ends.
Addresses are of 198.18.0.0/15, and in the namespaces alone the cloud is 10.96.0.1, as pods know it.
"""

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

from tools.harness.pods.kubelet import pod_network
from tools.nemesis.vip.network import INTERFACE, Network, run

CLOUD = "cloud"
CLOUD_ADDRESS = "10.96.0.1"
_GATEWAY = "198.18.1.254"
_WAN = "wan0"
# The directory of `ip netns`.
_NAMESPACES = "/run/netns"
# Locally administered; the second one is nobody's.
_MAC, _NOBODY = "02:00:00:00:00:{:02x}", "02:00:00:00:01:{:02x}"

# From which node to which.
Pair = tuple[str, str]


class SiteNetwork(Network):
    """Raises NoNamespaces on entry where there can be none."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._descriptors: dict[str, int] = {}
        self._lock = threading.Lock()
        self._parted: Counter[Pair] = Counter()
        self._cut: Counter[str] = Counter()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.close)
            super().__enter__()
            self._add_cloud()
            for name in self._numbers:
                self.add(name)
                self._add_link(name)
            for name in self._numbers:
                for other in self._numbers.keys() - {name}:
                    self._neighbour((name, other), _MAC)
            for name in (CLOUD, *self._numbers):
                path = f"{_NAMESPACES}/{self.namespace(name)}"
                self._descriptors[name] = os.open(path, os.O_RDONLY)
            stack.pop_all()
        return self

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
        super().close()

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Sockets, threads and processes that this thread makes meanwhile are of the node, or of
        CLOUD."""
        with pod_network.entered(self._descriptors[name]):
            yield

    @property
    def listen_in_cloud(self) -> Callable[[int], socket.socket]:
        def listen(port: int) -> socket.socket:
            with self.entered(CLOUD):
                return socket.create_server((CLOUD_ADDRESS, port))

        return listen

    # ── what befalls it ──

    def part(self, pairs: Iterable[Pair]) -> None:
        """What the first one sends to the second one is lost."""
        with self._lock:
            for pair in pairs:
                self._parted[pair] += 1
                if self._parted[pair] == 1:
                    self._neighbour(pair, _NOBODY)

    def join(self, pairs: Iterable[Pair]) -> None:
        with self._lock:
            for pair in pairs:
                self._parted[pair] -= 1
                if not self._parted[pair]:
                    self._neighbour(pair, _MAC)

    def cut(self, name: str) -> None:
        """What comes and goes over its link to the cloud is lost."""
        with self._lock:
            self._cut[name] += 1
            if self._cut[name] == 1:
                self._set_link(name, "down")

    def mend(self, name: str) -> None:
        with self._lock:
            self._cut[name] -= 1
            if not self._cut[name]:
                self._set_link(name, "up")

    def firewall(self, name: str, port: int, *, is_up: bool) -> None:
        """What comes to that port of TCP is dropped there."""
        change = "-A" if is_up else "-D"
        rule = ("INPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP")
        run("ip", "netns", "exec", self.namespace(name), "iptables", change, *rule)

    # ── how it is made ──

    def _add_cloud(self) -> None:
        self._add(CLOUD)
        self._ip(CLOUD, "link", "add", _WAN, "type", "bridge")
        self._ip(CLOUD, "link", "set", _WAN, "up")
        self._ip(CLOUD, "address", "add", f"{_GATEWAY}/24", "dev", _WAN)
        self._ip(CLOUD, "address", "add", f"{CLOUD_ADDRESS}/32", "dev", "lo")

    def _add_link(self, name: str) -> None:
        number = self._numbers[name]
        there = ["netns", self.namespace(name)]
        self._ip(CLOUD, "link", "add", name, "type", "veth", "peer", "name", _WAN, *there)
        self._ip(CLOUD, "link", "set", name, "master", _WAN, "up")
        self._ip(name, "address", "add", f"198.18.1.{number}/24", "dev", _WAN)
        self._ip(name, "link", "set", _WAN, "up")
        self._ip(name, "route", "add", f"{CLOUD_ADDRESS}/32", "via", _GATEWAY)
        self._ip(name, "link", "set", INTERFACE, "address", _MAC.format(number))

    def _set_link(self, name: str, state: str) -> None:
        """Of the bridge's port: the interface of the node goes on to have a carrier."""
        number = {"down": "0", "up": "3"}[state]
        run(
            "bridge",
            "-netns",
            self.namespace(CLOUD),
            *("link", "set", "dev", name, "state", number),
        )

    def _neighbour(self, pair: Pair, hardware: str) -> None:
        """Where the first one sends what is for the second one."""
        source, target = pair
        there = ["to", self.address(target), "lladdr", hardware.format(self._numbers[target])]
        self._ip(source, "neigh", "replace", *there, "nud", "permanent", "dev", INTERFACE)
