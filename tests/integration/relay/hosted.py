"""A listener of the relay with any handler, in a thread of its own, asked as by any client.

On uvloop, as the relay runs, unless another event loop is asked for.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Self

import uvloop

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web.connections import Handler
from edge_sidecars.runtime.web.listener import WRITE_TIMEOUT
from relay_sidecar.web.listener import listening
from tools.harness.controlplane.reservation import LOOPBACK

START_TIMEOUT = 10.0

# The handler's life; entered and left on the thread's loop.
Opened = Callable[[], AbstractAsyncContextManager[Handler]]
NewEventLoop = Callable[[], asyncio.AbstractEventLoop]


class Hosted:
    """Open while the block runs."""

    def __init__(
        self,
        opened: Opened,
        *,
        tls: ssl.SSLContext | None = None,
        limit: int = 100,
        write_timeout: float = WRITE_TIMEOUT,
        new_event_loop: NewEventLoop = uvloop.new_event_loop,
    ) -> None:
        self._opened = opened
        self._new_event_loop = new_event_loop
        self._tls = tls
        self._limit = limit
        self._write_timeout = write_timeout
        self._thread = threading.Thread(target=self._run, name="hosted")
        self._is_open = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._shut = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_open.wait(START_TIMEOUT), "it did not open"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._shut.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._opened() as handler:
            listener = listening(
                Address(LOOPBACK, 0),
                handler,
                limit=self._limit,
                tls=self._tls,
                write_timeout=self._write_timeout,
            )
            await listener.open()
            self.port = listener.bound.port
            self._is_open.set()
            await self._shut.wait()
            await listener.close()
