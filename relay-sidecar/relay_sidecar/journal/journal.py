"""The journal as the event loop sees it.

    GOOD ── the disk fails, or is silent for too long ─► FAILING ── it is time to retry ─► REWRITING
     ▲                                                     ▲                               │  │
     │                                                     └──────── the disk fails ───────┘  │
     └────────────────────────────── all that is known is on disk ────────────────────────────┘

Guarantees: while GOOD, what `commit` returned for is there after kill -9. While FAILING, nothing is
written and no caller waits: what is on disk stays as it was, each stream's objects and cursor
together, until at once it becomes all that the owners then know. Secrets are never written, but
as `store_as` has it.
Whatever the disk does, no commit takes longer than `PATIENCE`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from enum import Enum, auto
from pathlib import Path
from typing import Self

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.walstore.disk_thread import Commit, DiskThread, GroupCommit
from edge_sidecars.walstore.files import DirectoryInUse
from relay_sidecar.journal.database import DiskState, JournalWriter
from relay_sidecar.journal.records import OfStream, Record, Saved
from relay_sidecar.journal.rows import Room

# Seconds without any progress of the thread, from which on no caller waits for it. Several looks,
# so that a process that was stopped for a while is not taken for a disk that hangs.
PATIENCE = 2.0
_LOOKS = 4
# Seconds from a failure to the first retry, and at most between later ones.
FIRST_RETRY = 1.0
LAST_RETRY = 60.0
# Seconds for the last checkpoint; a pod's grace period is 30 by default.
CLOSE_TIMEOUT = 5.0

# In memory only, whichever component gives them to the journal.
_SECRETS = ("", "secrets")

Records = Callable[[], Iterable[Record]]
StoredForm = Callable[[Record], Sequence[Record]]
WholeForm = Callable[[Iterable[Record]], list[Record]]


class JournalMode(Enum):
    GOOD = auto()
    FAILING = auto()
    REWRITING = auto()


class Journal:
    """`failure`: why the disk does not follow, None where it does."""

    def __init__(
        self, directory: Path | None, *, overwrites: bool = False, room: Room | None = None
    ) -> None:
        """Made by `open`; with None also without it."""
        self.failure: str | None = None
        self._stored: StoredForm = without_secrets
        self._all_stored: WholeForm | None = None
        self._mode = JournalMode.GOOD
        self._states: list[Records] = []
        self._retry_delay = FIRST_RETRY
        self._retry: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._thread: DiskThread | None = None
        if directory is not None:
            self._directory = directory
            self._loop = asyncio.get_running_loop()
            self._writer = JournalWriter(directory, room=room or Room(), overwrites=overwrites)
            self._thread = DiskThread(
                "relay-journal",
                failures=(DirectoryInUse,),
                ended=RuntimeError("the journal's thread has ended"),
                idle_work=self._writer.idle_work,
            )
            self._groups = GroupCommit(self._thread, self._writer.commit, self._written)
            self._thread.on_death.append(self._thread_died)

    @classmethod
    async def open(
        cls, directory: Path | None, *, overwrites: bool = False, room: Room | None = None
    ) -> Self:
        """None: keeps nothing. A directory that cannot be used is a `failure`, to be retried.
        `overwrites`: what is deleted is overwritten in the file. `room`: for what is loaded.

        Raises `DirectoryInUse`.
        """
        async with AsyncExitStack() as stack:
            journal = cls(directory, overwrites=overwrites, room=room)
            stack.push_async_callback(journal.close)
            if journal._thread is not None:
                journal._follow(await journal._thread.run(journal._writer.open))
            stack.pop_all()
        return journal

    async def load(self) -> Saved:
        """What was there; to be called once, before the first commit."""
        if self._thread is None:
            return Saved()
        saved, state = await self._thread.run(self._writer.load)
        self._follow(state)
        return saved

    def store_as(self, form: StoredForm, whole: WholeForm | None = None) -> None:
        """`form` gives what is written instead of a record; default: Secrets are not. `whole`: the
        same of all records at once, where the disk is to hold these and nothing else; default: of
        each by itself."""
        self._stored = form
        self._all_stored = whole

    def rewrite_from(self, state: Records) -> None:
        """`state` returns all that its owner knows, as records that depend on none before them (no
        `EventsApplied`). After a failure the disk becomes what all these return, and nothing else;
        without them there is no end to a failure."""
        self._states.append(state)
        if self._mode is JournalMode.FAILING:
            self._retry_later()

    async def commit(self, *records: Record) -> None:
        """Returns when they are on disk, or cannot be: see `failure`. They are written all or none,
        and also where the caller is cancelled meanwhile."""
        written = self.begin(*records)
        if written is not None:
            await written

    def begin(self, *records: Record) -> asyncio.Future[None] | None:
        """As `commit`: what resolves when they are; None where nothing is to be waited for."""
        return self._send(records, waits=self._mode is not JournalMode.REWRITING)

    def send(self, *records: Record) -> None:
        """As `commit`, before whatever is committed from now on; returns at once."""
        self._send(records, waits=False)

    async def close(self) -> None:
        """Waits for a last checkpoint, but not for long: it is not needed."""
        for timer in (self._retry, self._watchdog):
            if timer is not None:
                timer.cancel()
        thread, self._mode, self._states = self._thread, JournalMode.FAILING, []
        if thread is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await thread.run(self._writer.close)
        except TimeoutError:
            logger.warning("the disk does not let go of the journal")
            thread.end()
        else:
            thread.end()
            thread.join()
        self._thread = None

    # ── to the thread ──

    def _send(self, records: Sequence[Record], *, waits: bool) -> asyncio.Future[None] | None:
        """What to wait for."""
        if self._thread is None or self._mode is JournalMode.FAILING:
            return None
        records = [stored for record in records for stored in self._stored(record)]
        if not records:
            return None
        written = self._loop.create_future() if waits else None
        self._groups.add(Commit(records, written))
        self._watch()
        return written

    def _watch(self) -> None:
        if self._watchdog is None:
            self._look_later(0)

    # ── from the thread ──

    def _written(self, entries: Sequence[Commit[Sequence[Record]]], state: DiskState) -> None:
        for entry in entries:
            entry.settle()
        self._follow(state)

    def _follow(self, state: DiskState) -> None:
        if state.note is not None:
            logger.warning("the journal was set aside", extra=fields(reason=state.note))
        if state.failure is not None:
            self._fail(state.failure)
            return
        if self._mode is JournalMode.REWRITING:
            self._mode = JournalMode.GOOD
        if self.failure is not None and self._mode is JournalMode.GOOD:
            self._mend()

    def _thread_died(self) -> None:
        """Of an unforeseen error: each later commit raises it."""
        if self._retry is not None:
            self._retry.cancel()
        self._mode = JournalMode.GOOD

    # ── failures ──

    def _fail(self, failure: str) -> None:
        if failure != self.failure:
            logger.warning(
                "the journal cannot be written",
                extra=fields(reason=failure, retry_in=self._retry_delay),
            )
        self.failure = failure
        self._mode = JournalMode.FAILING
        for entry in self._groups.pending:
            entry.settle()
        self._retry_later()

    def _retry_later(self) -> None:
        if self._states and self._retry is None:
            self._retry = self._loop.call_later(self._retry_delay, self._rewrite)
            self._retry_delay = min(2 * self._retry_delay, LAST_RETRY)

    def _rewrite(self) -> None:
        self._retry = None
        if self._groups.pending:
            # The disk still hangs.
            self._retry_later()
            return
        known = (record for state in self._states for record in state())
        if self._all_stored is not None:
            records = self._all_stored(known)
        else:
            records = [stored for record in known for stored in self._stored(record)]
        self._mode = JournalMode.REWRITING
        self._groups.add_alone(Commit((), None), lambda: self._writer.rewrite(records))
        self._watch()

    def _mend(self) -> None:
        if any(entry.done is None for entry in self._groups.pending):
            # A caller did not wait, and what it knows is not on disk yet.
            return
        self.failure = None
        self._retry_delay = FIRST_RETRY
        logger.info("the journal is written again")

    def _look_later(self, strikes: int) -> None:
        count = self._writer.steps.count
        self._watchdog = self._loop.call_later(PATIENCE / _LOOKS, self._look, strikes, count)

    def _look(self, strikes: int, count: int) -> None:
        """Whether callers have waited for long enough without anything happening."""
        self._watchdog = None
        if not self._groups.pending or self._thread is None:
            return
        strikes = strikes + 1 if self._writer.steps.count == count else 0
        if strikes == _LOOKS and self._mode is not JournalMode.FAILING:
            self._fail(f"{self._directory}: the disk has not answered for {PATIENCE:g}s")
        self._look_later(min(strikes, _LOOKS - 1))


def without_secrets(record: Record) -> Sequence[Record]:
    resource = record.scope.resource if isinstance(record, OfStream) else record.resource
    return () if is_secret(resource) else (record,)


def is_secret(resource: ResourceName | None) -> bool:
    return resource is not None and (resource.group, resource.plural) == _SECRETS
