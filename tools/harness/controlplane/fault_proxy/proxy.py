"""A TCP proxy that a test can break in the ways in which networks break.

Guarantees: a control method returns when its fault holds for existing and new connections; the
port stays the same while it refuses; TLS passes untouched, so the server's certificate must be
valid for 127.0.0.1; `stop` resets everything that is open.
Differs from a broken wire: the proxy's kernel completes connections and acknowledges bytes also
in a black hole, so TCP_USER_TIMEOUT does not fire; a server that is down shows as a reset.
"""

from __future__ import annotations

import asyncio
import copy
import socket
import threading
from collections.abc import Callable
from typing import Self, TypeVar

from tools.harness.controlplane.fault_proxy.fault import Delay, Fault, Mode, Traffic
from tools.harness.controlplane.fault_proxy.link import Link, PresentFault
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.controlplane.settling import settle

# Seconds for one control call; the loop never does anything that takes longer.
CONTROL_TIMEOUT = 10.0


_Observed = TypeVar("_Observed")


class FaultProxy:
    """Forwards a port of 127.0.0.1 to a server, from `start` to `stop`, in its own thread."""

    def __init__(
        self,
        target_port: int,
        *,
        target_host: str = LOOPBACK,
        port: int = 0,
        scheme: str = "https",
        listen: Callable[[int], socket.socket] | None = None,
    ) -> None:
        """`scheme`: what the server speaks; only `url` tells it. `listen` makes the listener of a
        port: by default on loopback, else where clients of another network are."""
        self._target = (target_host, target_port)
        self._listen = listen or (lambda port: socket.create_server((LOOPBACK, port)))
        self._reservation = Reservation(port)
        self.port = self._reservation.port
        # Where clients go.
        self.url = f"{scheme}://{LOOPBACK}:{self.port}"
        self._traffic = Traffic()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._loop = asyncio.new_event_loop()
        self._present = PresentFault()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")

    def start(self) -> Self:
        """Returns when it listens."""
        self._thread.daemon = True
        self._thread.start()
        self.apply(Fault())
        return self

    def stop(self) -> None:
        """Resets all connections and gives the port back; may be called again."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(CONTROL_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONTROL_TIMEOUT)
        self._loop.close()
        self._reservation.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Faults

    def apply(self, fault: Fault) -> None:
        """Puts any combination of mode and delays in force, in place of the present one."""
        change = self._change(fault)
        asyncio.run_coroutine_threadsafe(change, self._loop).result(CONTROL_TIMEOUT)

    def heal(self) -> None:
        """Forwards everything; what a black hole or a delay held flows, connections that lost
        a response are reset."""
        self.apply(Fault())

    def refuse(self) -> None:
        """Closes the port (ECONNREFUSED) and resets existing connections."""
        self.apply(Fault(mode=Mode.REFUSE))

    def reset(self) -> None:
        """Resets existing connections, and each new one as soon as it is accepted."""
        self.apply(Fault(mode=Mode.RESET))

    def black_hole(self) -> None:
        """Keeps and accepts connections, and forwards nothing, neither bytes nor their end."""
        self.apply(Fault(mode=Mode.BLACK_HOLE))

    def delay(self, seconds: float, *, jitter: float = 0.0) -> None:
        """Delays both directions: a round trip takes 2 x `seconds` (+ 0..`jitter` each) longer,
        a first request over TLS at least twice that."""
        delay = Delay(seconds, jitter)
        self.apply(Fault(request_delay=delay, response_delay=delay))

    def delay_request(self, seconds: float, *, jitter: float = 0.0) -> None:
        """Delays only what clients send."""
        self.apply(Fault(request_delay=Delay(seconds, jitter)))

    def delay_response(self, seconds: float, *, jitter: float = 0.0) -> None:
        """Delays only what the server sends, in a TLS handshake too."""
        self.apply(Fault(response_delay=Delay(seconds, jitter)))

    def lose_segments(self, share: float) -> None:
        """Delays chunks as if the wire lost this share of all segments, so that TCP sends them
        again after 0.2 s, 0.6 s, 1.4 s, …"""
        self.apply(Fault(loss=share))

    def be_slow(
        self, *, round_trip: float = 0.0, loss: float = 0.0, bandwidth: float | None = None
    ) -> None:
        """A thin link: each round trip takes `round_trip` seconds, a share of all segments is lost
        and sent again, and so many bytes a second get through, each way. A connection takes one
        round trip less than on a wire, since this proxy accepts it."""
        delay = Delay(round_trip / 2)
        self.apply(Fault(request_delay=delay, response_delay=delay, loss=loss, bandwidth=bandwidth))

    def lose_response(self, *, connections: int | None = None, reset: bool = False) -> None:
        """Forwards requests, and none of the server's bytes from a request on: silence or, with
        `reset`, a reset in place of the response, as soon as nothing moves any more. TLS
        handshakes succeed. `connections`: only the next so many connections that send something;
        None: all, waiting ones included."""
        fault = Fault(mode=Mode.LOSE_RESPONSE, losses=connections, reset_after_loss=reset)
        self.apply(fault)

    def silence(self) -> None:
        """Connections that are open now stay so, and their clients hear nothing any more; new ones
        are served. `heal` resets those that lost something."""

        def mute() -> None:
            for link in self._links:
                link.mute()

        self._call(mute)

    # Observations

    def fault(self) -> Fault:
        """The present fault."""
        return self._call(lambda: self._present.fault)

    def traffic(self) -> Traffic:
        """What went through up to now."""
        return self._call(lambda: copy.copy(self._traffic))

    def _call(self, function: Callable[[], _Observed]) -> _Observed:
        """The result of the function in the proxy's own thread."""

        async def call() -> _Observed:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(CONTROL_TIMEOUT)

    # In the proxy's own thread

    async def _change(self, fault: Fault) -> None:
        self._present.change(fault)
        if fault.mode is Mode.REFUSE:
            self._close_port()
        elif self._listener is None:
            self._open_port()
        for link in self._links:
            if fault.mode in (Mode.REFUSE, Mode.RESET):
                link.reset()
            elif fault.mode is Mode.PASS:
                link.heal()
        await settle()

    def _open_port(self) -> None:
        """Not asyncio's own server, which forgets connections accepted while it is closed."""
        self._listener = self._listen(self.port)
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept, self._listener)

    def _close_port(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            # A child that is just being started has a copy of it, which would listen on.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            # The client has given up already.
            return
        accepted.setblocking(False)
        task = self._loop.create_task(self._serve(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        self._traffic.connections += 1
        # asyncio does so where a socket says that it is TCP, which accepted ones do not: answers
        # in two parts would wait 40 ms for an acknowledgement, as on no wire.
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=accepted)
        link = Link(reader, writer, present=self._present, traffic=self._traffic)
        if self._present.fault.mode in (Mode.REFUSE, Mode.RESET):
            link.reset()
            return
        self._links.add(link)
        try:
            await link.run(*self._target)
        finally:
            self._links.discard(link)

    async def _shut(self) -> None:
        # From here on, what the kernel had accepted is reset as soon as it is handed over.
        self._present.change(Fault(mode=Mode.RESET))
        self._close_port()
        for link in self._links:
            link.reset()
        await settle()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await settle()
