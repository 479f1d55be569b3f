"""Counts the samples of this node's datasets, and reports each count that is new, 0 as well.

Guarantees: An edit of url, format or credentials takes effect at once. What is wrong with a dataset
is reported with what to do, and so is its repair. Few files are counted at a time, however many
there are, and one that hangs, or is very large, keeps no other waiting. Remote ones wait for their
host and for each other (`remote_files.py`), never local ones for them. What was reported survives a
restart with the store.
"""

import asyncio
import heapq
import posixpath
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.file_url import is_remote
from edge_sidecars.sedna_api.core.kinds import DATASET
from lc.core.outbox import ResendSchedule
from lc.core.sample_count import Position, decoded, encoded
from lc.core.worker_info import UNFORESEEN, UnusableReport, WorkerInfo
from lc.files.file_thread import Progress
from lc.files.node_files import FileSources
from lc.store import Store, StoreUnavailable
from lc.workers.sample_counter import (
    CountFailed,
    checked,
    count_local,
    count_remote,
    hanging,
)


class DatasetSpec(msgspec.Struct, rename="camel", gc=False):
    url: str = ""
    format: str = ""
    credential_name: str = ""


class DatasetStatus(msgspec.Struct, rename="camel", frozen=True, gc=False):
    number_of_samples: int | None = None


class ParsedDataset(msgspec.Struct, gc=False):
    spec: DatasetSpec
    status: DatasetStatus = DatasetStatus()


_DATASET = msgspec.json.Decoder(ParsedDataset)


def parse_dataset(document: Document) -> ParsedDataset:
    """Empty where an object is none that the API would have taken: then its format is wrong."""
    try:
        parsed = _DATASET.decode(document.raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ParsedDataset(DatasetSpec())
    spec = parsed.spec
    spec.format = spec.format.lower()  # as Sedna does
    if spec.url.startswith("/"):
        spec.url = posixpath.normpath(spec.url)
    return parsed


# So many local ones are counted at a time: an edge node's disk gains nothing from more.
AT_ONCE = 4
# Its share of the interval, so that they do not all come at the same moment.
SPREAD = 0.1
# Counting takes no more than such a part of the time, whatever the interval says.
MAX_SHARE = 0.1
# Seconds until a report that the disk did not take is tried again.
RETRY_AFTER = 5.0


@dataclass(slots=True)
class _Watched:
    """`position` as last counted, `told` as last reported by this process, `known` as the API has
    the count: where that stays another one, it is reported again."""

    document: Document
    spec: DatasetSpec
    position: Position
    due_at: float
    repetition: ResendSchedule
    known: int | None = None
    problem: str = ""
    told: bytes = b""
    is_counted: bool = False
    is_counting: bool = False
    progress: Progress = field(default_factory=Progress)
    began_at: float = 0.0

    def begins(self) -> None:
        """Its turn has come: what it takes from now on is its own doing."""
        self.began_at = boottime()

    def begun(self) -> Progress:
        """Of one more thread. Raises `CountFailed` while the last one hangs still."""
        if not self.progress.is_over:
            raise CountFailed(self.problem or hanging(self.spec.url))
        self.progress = Progress()
        return self.progress


class Datasets:
    """A manager; `interval` in seconds between two counts of one dataset."""

    handles = frozenset({DATASET.singular})
    follows = frozenset({DATASET.singular})

    def __init__(self, store: Store, sources: FileSources, *, interval: float) -> None:
        self._store = store
        self._sources = sources
        self._interval = interval
        self._watched: dict[str, _Watched] = {}
        self._due: list[tuple[float, str]] = []
        self._wake = asyncio.Event()
        # Local ones that are due and found no slot yet, in their order.
        self._queue: asyncio.Queue[_Watched] = asyncio.Queue()
        self.counts = 0

    def object_changed(self, document: Document) -> None:
        parsed = parse_dataset(document)
        spec = parsed.spec
        watched = self._watched.get(document.uid)
        if watched is not None:
            watched.document, watched.known = document, parsed.status.number_of_samples
            if watched.spec != spec:
                watched.spec = spec
                self._schedule(watched, boottime())
            return
        kept = decoded(self._store.position(document.uid) or b"")
        position = kept or Position(spec.url, spec.format)
        now = boottime()
        watched = _Watched(
            document,
            spec,
            position,
            due_at=now,
            repetition=ResendSchedule.begun(now),
            known=parsed.status.number_of_samples,
            is_counted=kept is not None,
        )
        self._watched[document.uid] = watched
        self._schedule(watched, watched.due_at)

    def object_gone(self, document: Document) -> None:
        self._watched.pop(document.uid, None)

    def check(self, info: WorkerInfo) -> None:
        raise UnusableReport("a dataset has no workers: LC counts it by itself")

    async def worker_reported(self, info: WorkerInfo, document: Document) -> None:
        self.check(info)

    def notes(self) -> Mapping[ObjectKey, str]:
        return {each.document.key: _note(each) for each in self._watched.values()}

    def problems(self) -> int:
        """How many datasets cannot be counted now."""
        return sum(1 for each in self._watched.values() if each.problem)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._count_queued())
            while True:
                await self._wait()
                watched = self._take()
                if watched is None:
                    continue
                watched.is_counting = True
                if is_remote(watched.spec.url):
                    group.create_task(self._count(watched))
                else:
                    self._queue.put_nowait(watched)

    async def _count_queued(self) -> None:
        while True:
            await self._count(await self._queue.get())

    async def _wait(self) -> None:
        """Until one is due."""
        while not self._due or self._due[0][0] > boottime():
            left = self._due[0][0] - boottime() if self._due else None
            self._wake.clear()
            if not await is_set(self._wake, within=left):
                return

    def _take(self) -> _Watched | None:
        """The next that is due, unless it left, was put off, or is being counted."""
        due_at, uid = heapq.heappop(self._due)
        watched = self._watched.get(uid)
        if watched is None or watched.due_at != due_at or watched.is_counting:
            return None
        return watched

    def _schedule(self, watched: _Watched, due_at: float) -> None:
        watched.due_at = due_at
        heapq.heappush(self._due, (due_at, watched.document.uid))
        self._wake.set()

    async def _count(self, watched: _Watched) -> None:
        watched.begins()
        spec = watched.spec
        is_whole = True
        try:
            if self._watched.get(watched.document.uid) is not watched:
                return
            problem, is_whole = await self._counted(watched, spec)
        except UNFORESEEN as error:
            problem = _unforeseen(watched, error)
        finally:
            watched.is_counting = False
        if self._watched.get(watched.document.uid) is not watched:
            return
        if watched.spec != spec:
            self._schedule(watched, boottime())
            return
        took = boottime() - watched.began_at
        if not is_whole:
            # Behind those that are due.
            self._schedule(watched, boottime())
            return
        interval = self._interval * random.uniform(1 - SPREAD, 1 + SPREAD)
        pause = max(interval, took / MAX_SHARE)
        watched.problem = problem
        try:
            is_told = await self._report(watched)
        except UNFORESEEN as error:
            watched.problem, is_told = _unforeseen(watched, error), False
        if not is_told:
            pause = max(RETRY_AFTER, took / MAX_SHARE)
        self._schedule(watched, boottime() + pause)

    async def _counted(self, watched: _Watched, spec: DatasetSpec) -> tuple[str, bool]:
        """Its problem, "" for none, with the new position in place; and whether that is all."""
        self.counts += 1
        kept, is_whole = watched.position, True
        if (kept.url, kept.format) != (spec.url, spec.format):
            kept = Position(spec.url, spec.format)
        try:
            if checked(spec.url, spec.format).is_remote:
                secret = self._secret(watched.document.namespace, spec)
                remote = self._sources.remote
                position = await count_remote(remote, kept, secret, begins=watched.begins)
            else:
                position, is_whole = await count_local(self._sources.host, kept, watched.begun())
        except CountFailed as problem:
            return str(problem), True
        watched.position = position
        watched.is_counted = watched.is_counted or is_whole
        return "", is_whole

    def _secret(self, namespace: str, spec: DatasetSpec) -> Mapping[str, str] | None:
        """Raises `CountFailed` where it is named and not here."""
        if not spec.credential_name:
            return None
        secret = self._sources.secrets.named(namespace, spec.credential_name)
        if secret is None:
            raise CountFailed(
                f"Secret {spec.credential_name!r:.80} is not mounted for LC on this node: mount it "
                f"under --secrets-dir/{namespace}/{spec.credential_name:.80}"
            )
        return secret

    async def _report(self, watched: _Watched) -> bool:
        """Whether what is known is reported; the store knows what was reported before a restart."""
        body, document = _body(watched), watched.document
        if body == watched.told and not self._is_lost(watched):
            return True
        try:
            if body == watched.told:
                await self._repeat(watched, body)
                return True
            await self._store.save_position(document, encoded(watched.position), report=body)
        except StoreUnavailable:
            return False
        watched.repetition = ResendSchedule.begun(boottime())
        was_problem = b'"problem"' in watched.told
        watched.told = body
        if watched.problem:
            logger.warning(
                "dataset cannot be counted",
                extra=fields(dataset=_name(document), problem=watched.problem),
            )
        else:
            level = logger.info if was_problem else logger.debug
            samples = watched.position.samples()
            level("dataset counted", extra=fields(dataset=_name(document), samples=samples))
        return True

    def _is_lost(self, watched: _Watched) -> bool:
        """What was reported was acknowledged long ago, and the API has another count."""
        return (
            not watched.problem
            and watched.known != watched.position.samples()
            and watched.repetition.is_due(boottime())
            and not self._store.pending_of(watched.document.uid)
        )

    async def _repeat(self, watched: _Watched, body: bytes) -> None:
        document = watched.document
        await self._store.enqueue(document, is_event=False, worker="", body=body, is_repeated=True)
        watched.repetition = watched.repetition.repeated(boottime())


def _unforeseen(watched: _Watched, error: Exception) -> str:
    """The problem. One bad object stops nothing."""
    logger.exception(
        "an object cannot be worked on", extra=fields(object=str(watched.document.key))
    )
    return f"it cannot be counted: {type(error).__name__}"


def _body(watched: _Watched) -> bytes:
    if watched.problem:
        return msgspec.json.encode({"problem": watched.problem})
    return msgspec.json.encode({"numberOfSamples": watched.position.samples()})


def _note(watched: _Watched) -> str:
    if watched.problem:
        return f"problem: {watched.problem}"
    return f"{watched.position.samples()} samples" if watched.is_counted else "not counted yet"


def _name(document: Document) -> str:
    return f"{document.namespace}/{document.name}"
