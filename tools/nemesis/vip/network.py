"""Nodes of a network as network namespaces: a switch, and a cable from each node to it.

Owns the namespaces that it makes, and removes them with everything in them; the machine's own
network stays as it is. Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and iproute2.
Addresses are of 198.18.0.0/15, which RFC 2544 keeps for tests.
"""

import secrets
import subprocess
from contextlib import ExitStack
from typing import Self

INTERFACE = "eth0"
PREFIX = 24
_BRIDGE = "switch"
# linux/if_bridge.h: BR_STATE_DISABLED, BR_STATE_FORWARDING
_DISABLED, _FORWARDING = "0", "3"


class NoNamespaces(Exception):
    """This machine lets us make none; the message says why."""


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespaces(f"{' '.join(command)}: {done.stderr.strip()}")


class Network:
    """Raises NoNamespaces on entry where there can be none."""

    def __init__(self) -> None:
        self._name = f"es-{secrets.token_hex(3)}"
        self._made: list[str] = []
        self._addresses: dict[str, str] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.close)
            self._add(_BRIDGE)
            self._ip(_BRIDGE, "link", "add", _BRIDGE, "type", "bridge")
            self._ip(_BRIDGE, "link", "set", _BRIDGE, "up")
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for name in self._made:
            run("ip", "netns", "delete", self.namespace(name))
        self._made.clear()

    def namespace(self, name: str) -> str:
        return f"{self._name}-{name}"

    def inside(self, name: str) -> list[str]:
        """What is put before a command that is to run there."""
        return ["ip", "netns", "exec", self.namespace(name)]

    def address(self, name: str) -> str:
        return self._addresses[name]

    def add(self, name: str) -> None:
        """A node with INTERFACE and the next address."""
        self._add(name)
        self._addresses[name] = f"198.18.0.{len(self._made)}"
        there = ["netns", self.namespace(name)]
        self._ip(_BRIDGE, "link", "add", name, "type", "veth", "peer", "name", INTERFACE, *there)
        self._ip(_BRIDGE, "link", "set", name, "master", _BRIDGE, "up")
        address = f"{self.address(name)}/{PREFIX}"
        self._ip(name, "address", "add", address, "dev", INTERFACE)
        self._ip(name, "link", "set", INTERFACE, "up")

    # ── what is done to a cable ──

    def unplug(self, name: str) -> None:
        """Its interface has no carrier any more."""
        self._ip(_BRIDGE, "link", "set", name, "down")

    def plug(self, name: str) -> None:
        self._ip(_BRIDGE, "link", "set", name, "up")

    def silence(self, name: str) -> None:
        """Nothing passes, and nobody is told."""
        self._state(name, _DISABLED)

    def restore(self, name: str) -> None:
        self._state(name, _FORWARDING)

    def _state(self, name: str, state: str) -> None:
        switch = self.namespace(_BRIDGE)
        run("bridge", "-netns", switch, "link", "set", "dev", name, "state", state)

    def _add(self, name: str) -> None:
        run("ip", "netns", "add", self.namespace(name))
        self._made.append(name)
        self._ip(name, "link", "set", "lo", "up")

    def _ip(self, name: str, *words: str) -> None:
        run("ip", "-netns", self.namespace(name), *words)
