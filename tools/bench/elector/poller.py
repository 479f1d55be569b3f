"""Polls /readyz of many pods over fresh connections, from one thread, and keeps every reply.

Guarantees: `sent` is read before connecting and `received` after reading, so an overlap that is
seen is one; a pod that does not answer is still asked (twice a second), and what waited in its
socket counts when it is answered. Cheap on purpose: raw sockets, nothing parsed but the status.
"""

import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Self

from tools.bench.elector.timeline import NO_ANSWER, Reply
from tools.harness.peers.candidate import CandidatePod
from tools.harness.pods.elector import ElectorPod

Contender = ElectorPod | CandidatePod
REQUEST = b"GET /readyz?promise=false HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CONNECT_TIMEOUT = 0.2
# More requests in the socket of a silent pod than this: asked at the slow rate only.
PATIENCE = 3
SLOW_INTERVAL = 0.5
# Far below the backlog of either server (asyncio: 100).
MAX_PENDING = 60


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(eq=False)
class Target:
    """One pod under watch. `replies` only grows; safe to read from any thread."""

    pod: Contender
    replies: list[Reply] = field(default_factory=list)
    pending: int = 0
    asked_at: float = 0.0

    def take(self, *, status: int, sent: float, received: float) -> None:
        self.replies.append(Reply(self.pod.name, status, sent, received))

    def says_leader(self) -> bool:
        """Whether the newest reply, no older than half a second, is a 200."""
        newest = self.replies[-1] if self.replies else None
        return newest is not None and newest.status == 200 and boottime() - newest.received < 0.5


class Poller:
    """Polls from entering to leaving; `targets` may change meanwhile."""

    def __init__(self, *, interval: float) -> None:
        self.interval = interval
        self._targets: tuple[Target, ...] = ()
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="poller")

    def watch(self, pod: Contender) -> Target:
        target = Target(pod)
        with self._lock:
            self._targets = (*self._targets, target)
        return target

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            self._close(key.fileobj)
        self._selector.close()

    def _run(self) -> None:
        tick = time.monotonic()
        while not self._is_over:
            for target in self._targets:
                self._ask(target)
            tick = max(tick + self.interval, time.monotonic() - self.interval)
            while (left := tick - time.monotonic()) > 0:
                for key, _ in self._selector.select(left):
                    self._read(key)

    def _ask(self, target: Target) -> None:
        now = boottime()
        is_slow = target.pending >= PATIENCE
        is_due = not is_slow or now - target.asked_at >= SLOW_INTERVAL
        if not target.pod.port or target.pending >= MAX_PENDING or not is_due:
            return
        target.asked_at = sent = now
        connection = socket.socket()
        connection.settimeout(CONNECT_TIMEOUT)
        try:
            connection.connect(("127.0.0.1", target.pod.port))
            connection.send(REQUEST)
        except OSError:
            connection.close()
            target.take(status=NO_ANSWER, sent=sent, received=boottime())
            return
        connection.setblocking(False)
        target.pending += 1
        self._selector.register(connection, selectors.EVENT_READ, (target, sent))

    def _read(self, key: selectors.SelectorKey) -> None:
        target, sent = key.data
        assert isinstance(key.fileobj, socket.socket)
        try:
            answer = key.fileobj.recv(512)
        except OSError:
            answer = b""
        received = boottime()
        self._close(key.fileobj)
        target.pending -= 1
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.") else NO_ANSWER
        target.take(status=status, sent=sent, received=received)

    def _close(self, connection: object) -> None:
        assert isinstance(connection, socket.socket)
        self._selector.unregister(connection)
        connection.close()
