"""Is it kubelet at the other end of a connection? By its process, on this machine.

kubelet shows its certificate no more once that has ended (client-go, util/certificate: Current),
not even to a relay that would take it. Then the kernel tells whose socket it is: a connection is
kubelet's where root made it and its inode is among the descriptors of the main process of kubelet's
unit. Only root can put one there, and root can read kubelet's key.

Kubelet also sends what authors of pods ask for: probes and hooks over HTTP, to any address and
path and with any headers. `is_for_a_pod` tells these from its own requests: by the User-Agent that
they have where the author names none, and, as an author may name any, by what kubelet never sends
to an API server. A probe closes its connection with each request, or asks for an upgrade (Go's
transport leaves the one out for the other only): k8s.io/kubernetes v1.36, pkg/probe/http/http.go.
A hook is known by its User-Agent, and by no `Accept` of a client of the API, only: an author who
forges both is given no answer by kubelet, but learns by its status whether an object is there.

What strangers can spend by connecting: a look at the kernel's table; systemd is asked for
connections of root only, once a second at most.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import hdrs
from multidict import MultiMapping

from edge_sidecars.runtime.clock import boottime

# proc_pid_net(5): the IPv4 and IPv6 connections of this network namespace.
TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# Seconds for which the main process of the unit is known, and in which systemd answers.
FRESH_FOR: Final = 1.0
PATIENCE: Final = 2.0

# pkg/probe/http/request.go, pkg/kubelet/lifecycle/handlers.go; what Go has where nothing is set.
_AGENTS_OF_PODS: Final = ("kube-probe/", "kube-lifecycle/", "go-http-client/")
# What clients of the API accept.
_API_TYPES: Final = ("application/json", "application/vnd.kubernetes.protobuf")

Endpoint = tuple[str, int]


class PeerSocket(NamedTuple):
    """Who made it, and how the kernel calls it."""

    uid: int
    inode: int


class KubeletProcess:
    """`unit`: of systemd; `main_pid` answers 0 where it does not run."""

    def __init__(
        self, unit: str, *, main_pid: Callable[[str], Awaitable[int]] | None = None
    ) -> None:
        self._unit = unit
        self._main_pid = main_pid or main_pid_of
        self._pid = 0
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()

    async def is_at(self, peer: Endpoint, own: Endpoint) -> bool:
        """Whether the connection from `peer` to `own`, of this machine, is kubelet's."""
        found = await asyncio.to_thread(peer_socket, peer, own)
        if found is None or found.uid != 0:
            return False
        pid = await self._process()
        return pid > 0 and await asyncio.to_thread(holds, pid, found.inode)

    async def _process(self) -> int:
        async with self._asking:
            if boottime() - self._asked_at > FRESH_FOR:
                self._pid = await self._main_pid(self._unit)
                self._asked_at = boottime()
            return self._pid


def is_for_a_pod(headers: MultiMapping[str]) -> bool:
    """Whether kubelet sends it on behalf of a pod's author."""
    agent = headers.get(hdrs.USER_AGENT, "").lower()
    if not agent or agent.startswith(_AGENTS_OF_PODS) or hdrs.UPGRADE in headers:
        return True
    accepted = headers.get(hdrs.ACCEPT, "").lower()
    options = ",".join(headers.getall(hdrs.CONNECTION, [])).lower()
    return not any(kind in accepted for kind in _API_TYPES) or any(
        option.strip() in ("close", "upgrade") for option in options.split(",")
    )


def peer_socket(peer: Endpoint, own: Endpoint) -> PeerSocket | None:
    """The other end's; None where it is not of this network namespace, or gone."""
    for table in TABLES:
        try:
            text = table.read_text()
        except OSError:
            continue
        found = find_socket(text, local=peer, remote=own)
        if found is not None:
            return found
    return None


def find_socket(table: str, *, local: Endpoint, remote: Endpoint) -> PeerSocket | None:
    """`table`: as /proc/net/tcp has it."""
    wanted = [spelled(local), spelled(remote)]
    for line in table.splitlines()[1:]:
        words = line.split()
        if words[1:3] == wanted:
            return PeerSocket(uid=int(words[7]), inode=int(words[9]))
    return None


def spelled(endpoint: Endpoint) -> str:
    """In the machine's byte order, each 32 bits by themselves."""
    host, port = endpoint[:2]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def holds(pid: int, inode: int) -> bool:
    """Whether the socket is among the descriptors of the process."""
    folder, wanted = f"/proc/{pid}/fd", f"socket:[{inode}]"
    try:
        return any(_target(f"{folder}/{name}") == wanted for name in os.listdir(folder))
    except OSError:
        return False


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


async def main_pid_of(unit: str) -> int:
    """0 where it does not run, or systemd does not say."""
    try:
        process = await asyncio.create_subprocess_exec(
            *("systemctl", "show", "--property=MainPID", "--value", unit),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return 0
    try:
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 0
    text = output.decode(errors="replace").strip()
    return int(text) if text.isascii() and text.isdigit() else 0
