"""Is it kubelet at the other end of a connection? By its process, on this machine.

kubelet shows its certificate no more once that has ended (client-go, util/certificate: Current),
not even to a relay that would take it. Then the kernel tells whose socket it is: a connection is
kubelet's where root made it and its inode is among the descriptors of the main process of kubelet's
unit. Whoever can put one there is root, who can read kubelet's key.

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

from edge_sidecars.runtime.clock import boottime

# proc_pid_net(5): the IPv4 and IPv6 connections of this network namespace.
TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# Seconds for which the main process of the unit is known, and in which systemd answers.
FRESH_FOR: Final = 1.0
PATIENCE: Final = 2.0

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
            told, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 0
    text = told.decode(errors="replace").strip()
    return int(text) if text.isascii() and text.isdigit() else 0
