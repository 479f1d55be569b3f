"""The journal as the event loop sees it.

    GOOD ── the disk fails, or is silent for too long ──► CUT ── it is time to retry ──► REWRITING
     ▲                                                     ▲                               │  │
     │                                                     └──────── the disk fails ───────┘  │
     └────────────────────────────── all that is known is on disk ────────────────────────────┘

Guarantees: while GOOD, what `commit` returned for is there after kill -9. While CUT, nothing is
written and nobody waits: what is on disk stays as it was, each stream's objects and cursor
together, until at once it becomes all that the owners then know. Secrets are never written.
Whatever the disk does, no commit takes longer than `PATIENCE`.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from enum import Enum, auto
from pathlib import Path
from typing import Self

from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.journal.records import Record, Saved, is_secret
from relay_sidecar.journal.writer import Close, Commit, Done, Entry, Load, Open, Rewrite, Writer

# Seconds without any progress of the thread, from which on nobody waits for it. Several looks, so
# that a process that was stopped for a while is not taken for a disk that hangs.
PATIENCE = 2.0
_LOOKS = 4
# Seconds from a failure to the first retry, and at most between later ones.
FIRST_RETRY = 1.0
LAST_RETRY = 60.0
# Seconds for the last checkpoint; a pod's grace period is 30 by default.
CLOSE_TIMEOUT = 5.0

State = Callable[[], Iterable[Record]]


class Mode(Enum):
    GOOD = auto()
    CUT = auto()
    REWRITING = auto()


class Journal:
    """`failure`: why the disk does not follow, None where it does."""

    def __init__(self, directory: Path | None) -> None:
        """Made by `open`; with None also without it."""
        self.failure: str | None = None
        self._directory = directory
        self._mode = Mode.GOOD
        self._states: list[State] = []
        self._backoff = Backoff(first=FIRST_RETRY, longest=LAST_RETRY)
        self._retry: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._last_ticket = 0
        # What the thread has not told of yet, by ticket.
        self._asked: dict[int, asyncio.Future[Done]] = {}
        self._commits: dict[int, asyncio.Future[None] | None] = {}
        self._writer: Writer | None = None
        if directory is not None:
            self._loop = loop = asyncio.get_running_loop()
            heard = self._heard
            self._writer = Writer(directory, lambda done: _post(loop, heard, done))
            self._writer.start()

    @classmethod
    async def open(cls, directory: Path | None) -> Self:
        """None: keeps nothing. A directory that cannot be used is a `failure`, to be retried.

        Raises `DirectoryInUse`.
        """
        async with AsyncExitStack() as stack:
            journal = cls(directory)
            stack.push_async_callback(journal.close)
            opened = await journal._ask(Open())
            if opened.in_use is not None:
                raise opened.in_use
            stack.pop_all()
        return journal

    async def load(self) -> Saved:
        """What was there; to be called once, before the first commit."""
        return (await self._ask(Load())).saved or Saved()

    def rewrite_from(self, state: State) -> None:
        """`state` returns all that its owner knows, as records that depend on none before them (no
        `EventsApplied`). After a failure the disk becomes what all these return, and nothing else;
        without them there is no end to a failure."""
        self._states.append(state)
        if self._mode is Mode.CUT:
            self._retry_later()

    async def commit(self, *records: Record) -> None:
        """Returns when they are on disk, or cannot be: see `failure`. They are written all or none,
        and also where the caller is cancelled meanwhile."""
        if self._writer is None:
            return
        waits = self._mode is not Mode.REWRITING
        written = self._loop.create_future() if waits else None
        if self._send(records, written) and written is not None:
            await written

    def send(self, *records: Record) -> None:
        """As `commit`, before whatever is committed from now on; nobody waits."""
        self._send(records, None)

    async def close(self) -> None:
        """Waits for a last checkpoint, but not for long: it is not needed."""
        for timer in (self._retry, self._watchdog):
            if timer is not None:
                timer.cancel()
        writer, self._mode, self._states = self._writer, Mode.CUT, []
        if writer is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._ask(Close())
        except TimeoutError:
            logger.warning("the disk does not let go of the journal")
        else:
            writer.join()
        self._writer = None

    # ── to the thread ──

    async def _ask(self, entry: Entry) -> Done:
        if self._writer is None:
            return Done((), None)
        answer: asyncio.Future[Done] = self._loop.create_future()
        self._asked[self._put(entry)] = answer
        return await answer

    def _send(self, records: tuple[Record, ...], written: asyncio.Future[None] | None) -> bool:
        """Whether there is something to wait for."""
        if self._writer is None or self._mode is Mode.CUT:
            return False
        if any(map(is_secret, records)):
            records = tuple(record for record in records if not is_secret(record))
        if records:
            self._put_commit(Commit(records), written)
        return bool(records)

    def _put_commit(self, entry: Commit | Rewrite, written: asyncio.Future[None] | None) -> None:
        self._commits[self._put(entry)] = written
        if self._watchdog is None:
            self._look_later(0)

    def _put(self, entry: Entry) -> int:
        assert self._writer is not None
        if not self._writer.is_alive():
            raise RuntimeError("the journal's thread has ended")
        self._last_ticket += 1
        self._writer.put(entry, self._last_ticket)
        return self._last_ticket

    # ── from the thread ──

    def _heard(self, done: Done | None) -> None:
        if done is None:
            self._ended()
            return
        for ticket in done.tickets:
            if ticket in self._asked:
                answer = self._asked.pop(ticket)
                if not answer.done():
                    answer.set_result(done)
            else:
                written = self._commits.pop(ticket)
                if written is not None and not written.done():
                    written.set_result(None)
        if done.note is not None:
            logger.warning("the journal was set aside", extra=fields(reason=done.note))
        if done.failure is not None:
            self._cut(done.failure)
            return
        if self._mode is Mode.REWRITING:
            self._mode = Mode.GOOD
        if self.failure is not None and self._mode is Mode.GOOD:
            self._mend()

    def _ended(self) -> None:
        """After `Close`, or because of something that nobody foresaw: that ends all callers."""
        if self._retry is not None:
            self._retry.cancel()
        self._mode = Mode.GOOD
        for future in (*self._asked.values(), *self._commits.values()):
            if future is not None and not future.done():
                future.set_exception(RuntimeError("the journal's thread has ended"))

    # ── failures ──

    def _cut(self, failure: str) -> None:
        if failure != self.failure:
            logger.warning(
                "the journal cannot be written",
                extra=fields(reason=failure, retry_in=self._backoff.bound),
            )
        self.failure = failure
        self._mode = Mode.CUT
        for written in self._commits.values():
            if written is not None and not written.done():
                written.set_result(None)
        self._retry_later()

    def _retry_later(self) -> None:
        if self._states and self._retry is None:
            self._retry = self._loop.call_later(self._backoff.failed(), self._rewrite)

    def _rewrite(self) -> None:
        self._retry = None
        if self._commits:
            # The disk still hangs.
            self._retry_later()
            return
        told = (record for state in self._states for record in state())
        self._mode = Mode.REWRITING
        self._put_commit(Rewrite([record for record in told if not is_secret(record)]), None)

    def _mend(self) -> None:
        if None in self._commits.values():
            # Somebody did not wait, and what he knows is not on disk yet.
            return
        self.failure = None
        self._backoff.succeeded()
        logger.info("the journal is written again")

    def _look_later(self, strikes: int) -> None:
        assert self._writer is not None
        steps = self._writer.progress.steps
        self._watchdog = self._loop.call_later(PATIENCE / _LOOKS, self._look, strikes, steps)

    def _look(self, strikes: int, steps: int) -> None:
        """Whether whoever waits has waited for long enough without anything happening."""
        self._watchdog = None
        if not self._commits or self._writer is None:
            return
        strikes = strikes + 1 if self._writer.progress.steps == steps else 0
        if strikes == _LOOKS and self._mode is not Mode.CUT:
            self._cut(f"{self._directory}: the disk has not answered for {PATIENCE:g}s")
        self._look_later(min(strikes, _LOOKS - 1))


def _post(
    loop: asyncio.AbstractEventLoop, heard: Callable[[Done | None], None], done: Done | None
) -> None:
    if not loop.is_closed():  # `close` does not wait for ever
        loop.call_soon_threadsafe(heard, done)
