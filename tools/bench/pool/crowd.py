"""A real member of a pool of 64: the 63 others are members' own LAN code in one process.

Guarantees: each has an address and a certificate of its own, asks the real member for its state
every 2 s over a kept connection, and is asked by it, as members do; bytes are those of TCP's
payload, TLS included.
"""

import asyncio
import json
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Self

from pool_sidecar.core.budget import LendingLimits
from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Directory, Peer, to_der
from pool_sidecar.core.peers import ROUND
from pool_sidecar.core.pool_member import MAX_MEMBERS, PATH, Link, MemberStatus, PoolMember
from pool_sidecar.lan.certificate import own_certificate
from pool_sidecar.lan.http_head import read_head
from pool_sidecar.lan.listener import LanListener
from pool_sidecar.lan.tls import client_context, limit_buffers
from tools.bench.pace import wait_for
from tools.bench.pool.three_nodes import SteadyKubelet
from tools.bench.process import MIB, cpu_seconds
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import Reservation
from tools.harness.pods.pools.accounts import node_client
from tools.harness.pods.pools.member import PoolNode

POOL = "crowd"
REAL = "real"
REAL_ADDRESS = "127.0.82.200"
TIMEOUT = 120.0
REQUEST = b"GET /state HTTP/1.1\r\nHost: pool-member\r\n\r\n"
# include/uapi/linux/tcp.h, struct tcp_info: tcpi_bytes_acked and tcpi_bytes_received.
BYTES_OFFSET = 120
TCP_INFO_BYTES = BYTES_OFFSET + 16


@dataclass(frozen=True)
class Cost:
    """Of the real member: LAN bytes a second, share of a core in %, resident MiB."""

    lan: float
    processor: float
    memory: float


class Other:
    """One of the others: what `LanListener` asks, and whom it asks."""

    def __init__(self, plane: ControlPlane, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.own = own_certificate(plane.folder / name, name)
        self.directory = Directory(name)
        self._state = LanState(name, str(uuid.uuid4()), Link.OWN, True).encode()
        self._writer: asyncio.StreamWriter | None = None

    def state(self, now: float) -> bytes:
        return self._state

    def lends(self, now: float) -> bool:
        return True

    def serves(self, now: float) -> bool:
        return False

    def relay_token(self) -> str:
        return ""

    async def follow(self, real: Peer, port: int) -> None:
        """Asks for the state of the real member until it is cancelled."""
        context = client_context(self.own.certificate, self.own.key, real.certificates)
        reader, self._writer = await asyncio.open_connection(
            real.addresses[0], port, ssl=context, server_hostname="", local_addr=(self.address, 0)
        )
        while True:
            begun = asyncio.get_running_loop().time()
            self._writer.write(REQUEST)
            head = await read_head(reader)
            if head is None:
                raise ConnectionError(f"the member closed the connection of {self.name}")
            await reader.readexactly(int(head.headers["content-length"]))
            await asyncio.sleep(begun + ROUND - asyncio.get_running_loop().time())

    def passed(self) -> int:
        """Bytes of its connection, both ways."""
        if self._writer is None:
            return 0
        sock = self._writer.get_extra_info("socket")
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        sent, received = struct.unpack_from("QQ", raw, BYTES_OFFSET)
        return int(sent + received)


class Crowd:
    """The others, in a thread, while it is entered."""

    def __init__(self, plane: ControlPlane, port: int) -> None:
        self._plane, self._port = plane, port
        self.others = [
            Other(plane, f"other-{number:02}", f"127.0.82.{number}")
            for number in range(1, MAX_MEMBERS)
        ]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crowd", daemon=True)
        self._run: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        limit_buffers()
        for it in self.others:
            labels = {DEFAULT_POOL_LABEL: POOL}
            body = {"metadata": {"name": it.name, "labels": labels}}
            expect(self._plane.admin.post("/api/v1/nodes", body))
        for it in self.others:
            self._publish(it)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def surround(self, real: Peer) -> None:
        """From now on they ask the real member, and it may ask them."""
        asyncio.run_coroutine_threadsafe(self._start(real), self._loop).result(TIMEOUT)

    def passed(self) -> int:
        """Bytes between it and the real member: of the connections of the others, twice, since it
        has as many to them, with the same requests and answers."""
        return 2 * sum(it.passed() for it in self.others)

    def check(self) -> None:
        """Raises what ended them."""
        if self._run is not None and self._run.done():
            self._run.result()

    def _publish(self, other: Other) -> None:
        path = f"{PATH}/{other.name}"
        wait_for(
            lambda: self._plane.admin.get(path)[0] == 200,
            timeout=TIMEOUT,
            what=f"member {other.name}",
        )
        status = MemberStatus((other.address,), (other.own.certificate,), Link.OWN)
        body = {"status": status.document()}
        expect(node_client(self._plane, other.name).patch(f"{path}/status", body))

    async def _start(self, real: Peer) -> None:
        self._run = asyncio.create_task(self._live(real))

    async def _live(self, real: Peer) -> None:
        listeners = []
        try:
            for it in self.others:
                it.directory = Directory(it.name, POOL, peers={real.name: real})
                server = "127.0.0.1", self._plane.port
                listener = LanListener(it, it.own, LendingLimits(), server=server, relay=server)
                listener.trust(it.directory)
                listener.open([it.address], self._port)
                listeners.append(listener)
            async with asyncio.TaskGroup() as group:
                for it in self.others:
                    group.create_task(it.follow(real, self._port))
        finally:
            for listener in listeners:
                await listener.close()

    async def _stop(self) -> None:
        if self._run is not None:
            self._run.cancel()
            with suppress(asyncio.CancelledError):
                await self._run


@contextmanager
def member_in_a_crowd(plane: ControlPlane) -> Iterator[tuple[PoolNode, Crowd]]:
    """The controller of pools runs."""
    port = Reservation()
    with ExitStack() as stack:
        stack.callback(port.release)
        real = stack.enter_context(
            PoolNode(
                plane,
                REAL,
                address=REAL_ADDRESS,
                lan_port=port.port,
                folder=plane.folder,
                labels={DEFAULT_POOL_LABEL: POOL},
                kubelet=SteadyKubelet,
            )
        )
        crowd = stack.enter_context(Crowd(plane, port.port))
        path = f"{PATH}/{REAL}"

        def published() -> PoolMember:
            return PoolMember.parse(json.dumps(expect(plane.admin.get(path))).encode())

        wait_for(lambda: bool(published().status.certificates), timeout=TIMEOUT, what=REAL)
        # The first life imports what makes the certificate.
        real.member.kill()
        real.member.start()
        found = published()
        certificates = tuple(map(to_der, found.status.certificates))
        crowd.surround(Peer(REAL, found.status.addresses, certificates))

        def is_surrounded() -> bool:
            crowd.check()
            peers = real.member.status()["peers"]
            return len(peers) == MAX_MEMBERS - 1 and all(it["verdict"] == "Alive" for it in peers)

        wait_for(is_surrounded, timeout=TIMEOUT, what="all are Alive", interval=0.5)
        yield real, crowd


def cost(real: PoolNode, crowd: Crowd, *, window: float) -> Cost:
    """Over the window, in which nothing happens."""
    pid = real.member.pid
    before, used, begun = crowd.passed(), cpu_seconds(pid), time.monotonic()
    time.sleep(window)
    crowd.check()
    seconds = time.monotonic() - begun
    return Cost(
        (crowd.passed() - before) / seconds,
        100 * (cpu_seconds(pid) - used) / seconds,
        real.member.memory() / MIB,
    )
