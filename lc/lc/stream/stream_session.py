"""One call to GM, from its hello to its end.

Owns the three things that go on at a time: reading, waiting for the disk, and sending reports.
Guarantees: Changes are asked of the store in GM's order and without waiting for each, but never
more than a few hundred ahead of the disk. Whatever ends one of the three ends the call. What was
asked of the store is awaited also then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.messages import Ack, Drain, FromNode, Pace, Put, ReportRefused
from edge_sidecars.sedna_api.core.store_reports import RETIRED_STORE
from edge_sidecars.sedna_api.stream_codec import NotAMessage, decode_to_node, encode_from_node
from lc.core.session import RESEND_AFTER, Effect, KeepOnly, RemoveObject, SendWindow, Session, hello
from lc.store import Store, StoreUnavailable

# Changes that wait for the disk; the store takes as many in one transaction.
MAX_AHEAD: Final = 500
# Seconds for what is on its way to the disk when a call ends.
SETTLE_TIMEOUT: Final = 5.0


class StreamEnded(msgspec.Struct, frozen=True):
    """`served_for`: seconds since the snapshot's end; None where there was none."""

    reason: str
    is_drained: bool = False
    served_for: float | None = None


class _Over(Exception):
    """The call is of no more use; the message says why."""

    def __init__(self, reason: str, *, is_drained: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_drained = is_drained


class StreamSession:
    """`run` once."""

    def __init__(self, store: Store, *, peer: str, paced: Callable[[float], None]) -> None:
        """`paced`: called with each pace that GM asks for."""
        self._paced = paced
        self._store = store
        self._peer = peer
        self._rules = Session(store.store_id, store.get)
        self._window = SendWindow()
        self._wanted = asyncio.Event()
        # Whether a refusal made another report the first of its object.
        self._has_new_head = False
        self._asked: asyncio.Queue[tuple[Effect, asyncio.Future[object]]] = asyncio.Queue(MAX_AHEAD)
        self._last_asked: asyncio.Future[object] | None = None
        # When the snapshot was on disk, on CLOCK_BOOTTIME.
        self.served_since: float | None = None

    def wake(self) -> None:
        """The store has something for GM."""
        self._wanted.set()

    async def run(self, call: Any, *, node: str, version: str, patience: float) -> StreamEnded:
        """Says hello and goes on until something ends the call. `patience`: seconds for GM's
        first message."""
        store = self._store
        greeting = hello(node, store.store_id, store.known(), version)
        tasks = [
            asyncio.create_task(self._read(call, patience)),
            asyncio.create_task(self._confirm()),
            asyncio.create_task(self._send(call, greeting)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            call.cancel()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await self._settle()
        return self._ended(results)

    def _ended(self, results: list[Any]) -> StreamEnded:
        served_for = None if self.served_since is None else boottime() - self.served_since
        for result in results:
            if isinstance(result, _Over):
                return StreamEnded(result.reason, result.is_drained, served_for)
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        return StreamEnded("GM hung up", served_for=served_for)

    # Reading

    async def _read(self, call: Any, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                data = await call.read()
            while data is not grpc.aio.EOF:
                await self._take(data)
                data = await call.read()
        except TimeoutError:
            raise _Over(f"GM said nothing for {patience:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise _Over(_words(error)) from error
        except NotAMessage as error:
            raise _Over(str(error)) from error
        raise _Over("GM hung up")

    async def _take(self, data: bytes) -> None:
        message = decode_to_node(data)
        if message is None:
            return
        for effect in self._rules.received(message):
            if isinstance(effect, Drain):
                raise _Over(effect.reason, is_drained=True)
            if isinstance(effect, Pace):
                self._paced(effect.seconds)
                continue
            # Asked for at once: this is the order in which it takes effect.
            self._last_asked = asked = asyncio.ensure_future(self._perform(effect))
            await self._asked.put((effect, asked))

    def _perform(self, effect: Effect) -> Awaitable[object]:
        store, now = self._store, boottime()
        match effect:
            case Put(document):
                return store.put(document)
            case RemoveObject(key, uid, version):
                return store.delete(key, uid, version=version)
            case KeepOnly(objects, is_rewound):
                return store.keep_only(objects, is_rewound=is_rewound)
            case Ack(_, uid, seq):
                self._window.answered(uid, now)
                return store.acked(uid, seq)
            case ReportRefused(reason=reason) if reason == RETIRED_STORE:
                return store.renew(reason)
            case ReportRefused(_, uid, seq, reason):
                logger.warning("GM refuses a report", extra=fields(uid=uid, seq=seq, why=reason))
                return store.refused(uid, seq, reason)
            case Drain() | Pace():
                raise AssertionError("is not the store's")

    # The disk

    async def _confirm(self) -> None:
        while True:
            effect, asked = await self._asked.get()
            # Not awaited itself: who stops waiting must not stop the change.
            await asyncio.wait((asked,))
            try:
                asked.result()
            except StoreUnavailable as error:
                raise _Over(f"the disk does not take what GM says: {error}") from error
            if isinstance(effect, KeepOnly):
                self.served_since = boottime()
                logger.info("connected", extra=fields(gm=self._peer, objects=len(effect.objects)))
            elif isinstance(effect, ReportRefused):
                self._go_on(effect)

    def _go_on(self, refused: ReportRefused) -> None:
        if refused.reason == RETIRED_STORE:
            raise _Over("this LC's store was retired; it took another id")
        # Not before the store has dropped it: it would be sent again as well.
        self._window.refused(refused.uid)
        self._has_new_head = True
        self.wake()

    async def _settle(self) -> None:
        """The next hello has what is on disk. A store that has ended does not answer."""
        if self._last_asked is not None:
            await asyncio.wait((self._last_asked,), timeout=SETTLE_TIMEOUT)

    # Reports

    async def _send(self, call: Any, greeting: FromNode) -> None:
        try:
            await call.write(encode_from_node(greeting))
            while True:
                self._wanted.clear()
                await self._send_due(call)
                await is_set(self._wanted, within=RESEND_AFTER)
        except grpc.aio.AioRpcError as error:
            raise _Over(_words(error)) from error
        except asyncio.InvalidStateError:
            # The call has ended: its reader learns why.
            await asyncio.get_running_loop().create_future()

    async def _send_due(self, call: Any) -> None:
        self._has_new_head = False
        for report in self._window.due(self._store.pending(), boottime()):
            if self._has_new_head:
                # What follows names a report before it that is not there any more.
                return
            # Before it is written: a refusal meanwhile lets it be sent again.
            self._window.sent(report, boottime())
            await call.write(encode_from_node(report))


def _words(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"
