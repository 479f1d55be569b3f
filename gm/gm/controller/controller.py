"""The controller: makes a plan for each object that changed, and applies it, while it owns it.

Owns when an object is reconciled: when it, its children, its references or reports about it change,
when a plan asks for it, and when it becomes this GM's; and what is remembered of an object between
two plans. Guarantees: an object is reconciled by one worker at a time; a failure delays that object
only, with growing delays; an object that cannot be understood is logged and reconciled again when
it changes. Nothing is reconciled before everything was listed, and nothing is written about an
object that is not this GM's. Children belong to the GM that owns their owner. All GMs together work
on as many objects at a time as one would.
"""

import asyncio
import math
import random
import secrets
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from edge_sidecars.controllers.event_recorder import EventRecorder
from edge_sidecars.controllers.guarded_writes import NotLeading
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.backoff import exponential
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.capability import KEY_BYTES
from gm.cache.informers import Informers
from gm.cache.node_index import MISSHAPEN
from gm.controller.api_writes import TROUBLE
from gm.controller.applier import Applier, ChildRefused, DecideAgain
from gm.controller.events import event
from gm.controller.ownership import Covers, Ownership, everything
from gm.controller.reference_lookup import MissedReferences, ReferenceLookup
from gm.controller.work_queue import WorkQueue
from gm.core.engine.engine import decide
from gm.core.engine.plan import ChildRefusal, ObjectView, ReconcilePlan
from gm.core.kind import WorkerSettings
from gm.core.kinds.registry import KINDS

# Seconds: trouble is over soon, or lasts.
FIRST_RETRY = 0.2
LONGEST_RETRY = 60.0
# Where the trouble is the API server's, not the object's: once it is over, no object waits for
# long.
LONGEST_OUTAGE_RETRY = 5.0
# What an API server in trouble is asked, until so many fail that LONGEST_RETRY comes first.
RETRIES_A_SECOND = 100.0
# Seconds until a child that was refused is tried again where the plan does not say.
REFUSED_FOR = 60.0
# Seconds between two looks at a lead that is too short for a write.
POLL = 0.1
# Of objects that are worked on at a time: one that failed before, and another.
FEWEST_AT_A_TIME = 2
# Outcomes of a plan that will be tried again, as metrics have it: not written, and unforeseen.
FAILED = "failed"
UNDECIDABLE = "undecidable"


@dataclass
class Remembered:
    """What is remembered of an object between two plans."""

    uid: str = ""
    failures: int = 0
    refusals: tuple[ChildRefusal, ...] = ()
    refused_until: float | None = None
    # Reports that have no effect and are not in the status either: node, epoch, seq.
    refused: frozenset[tuple[str, int, int]] = frozenset()
    waits_for: str = ""
    missed: MissedReferences = field(default_factory=MissedReferences)

    def add(self, refusal: ChildRefusal) -> None:
        """In the place of an earlier one of the same child; the next plan says until when."""
        child = (refusal.kind, refusal.name)
        others = (it for it in self.refusals if (it.kind, it.name) != child)
        self.refusals = (*others, refusal)
        self.refused_until = None

    def expire(self, now: float) -> None:
        """`now` on CLOCK_BOOTTIME."""
        if self.refused_until is not None and now >= self.refused_until:
            self.refusals, self.refused_until = (), None


class Controller:
    """`outcomes` counts plans by what became of them."""

    def __init__(
        self,
        informers: Informers,
        ownership: Ownership,
        applier: Applier,
        events: EventRecorder,
        references: ReferenceLookup,
        *,
        settings: WorkerSettings,
        concurrency: int,
    ) -> None:
        self._informers = informers
        self._ownership = ownership
        self._applier = applier
        self._events = events
        self._references = references
        self._settings = settings
        self._concurrency = concurrency
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._remembered: dict[ObjectKey, Remembered] = {}
        # The uids of what is worked on; set when one of them leaves.
        self._busy: set[str] = set()
        self._left = asyncio.Event()
        # Set when objects are gained or lost.
        self._moved = asyncio.Event()
        # There before the first one fails: Prometheus' increase() does not see a series begin.
        self.outcomes: Counter[str] = Counter({FAILED: 0, UNDECIDABLE: 0})
        self.folded = 0
        self.refused = 0

    @property
    def waiting(self) -> int:
        """Objects that are to be decided now."""
        return len(self._queue)

    @property
    def retries(self) -> int:
        """Objects that could not be written or decided and wait for another try."""
        return self._queue.retries

    @property
    def held_back(self) -> int:
        """Objects about which reports wait for others that have to come first."""
        return sum(bool(it.waits_for) for it in self._remembered.values())

    async def run(self) -> None:
        """Until cancelled."""
        self._informers.watch(self._touched)
        self._ownership.watch(self)
        await self._informers.synced()
        self.gained(everything)
        async with asyncio.TaskGroup() as group:
            for number in range(self._concurrency):
                group.create_task(self._work(number))

    # ── what is owned ──

    def gained(self, covers: Covers) -> None:
        self._has_moved()
        for uid, key in self._informers.objects():
            if covers(uid) and self._ownership.owns(uid):
                self._queue.add(key)

    def lost(self, covers: Covers) -> None:
        self._has_moved()

        def is_lost(key: ObjectKey) -> bool:
            document = self._informers.get(key)
            return document is None or covers(document.uid)

        self._queue.discard(is_lost)
        self._remembered = {k: it for k, it in self._remembered.items() if not covers(it.uid)}
        if covers is everything or not self._ownership.owns_any:
            self._references.forget()

    async def stopped(self, covers: Covers) -> None:
        while any(map(covers, self._busy)):
            await self._left.wait()

    @property
    def _at_a_time(self) -> int:
        """This GM's share of what may be worked on: the API server is one for all of them, and
        creates Services one after the other."""
        return max(math.ceil(self._concurrency * self._ownership.share), FEWEST_AT_A_TIME)

    def _has_moved(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _touched(self, key: ObjectKey) -> None:
        document = self._informers.get(key)
        if document is None:
            if key in self._remembered:
                self._queue.add(key)
        elif self._ownership.owns(document.uid):
            self._queue.add(key)

    async def _work(self, number: int) -> None:
        """The worker with this number rests while fewer than that are to work."""
        # A write may hang for as long as it is let: every other one is for what did not fail.
        failed_too = number % 2 == 0
        while True:
            while number >= self._at_a_time:
                await self._moved.wait()
            key = await self._queue.get(failed_too=failed_too)
            document = self._informers.get(key)
            try:
                if document is None:
                    self._remembered.pop(key, None)
                    outcome = "gone"
                else:
                    outcome = await self._guarded(key, document)
            finally:
                self._queue.done(key)
            self.outcomes[outcome] += 1
            # Where nothing was to be written nothing was waited for.
            await asyncio.sleep(0)

    # ── one object ──

    async def _guarded(self, key: ObjectKey, document: Document) -> str:
        """What became of it."""
        uid = document.uid
        if not self._ownership.may_act(uid):
            if self._ownership.owns(uid):
                self._queue.add_after(key, POLL)
            return "not leading"
        self._busy.add(uid)
        try:
            return await self._reconcile(key, document)
        finally:
            self._busy.discard(uid)
            self._left.set()
            self._left = asyncio.Event()

    async def _reconcile(self, key: ObjectKey, document: Document) -> str:
        remembered = self._remembered.get(key)
        if remembered is None or remembered.uid != document.uid:
            remembered = self._remembered[key] = Remembered(document.uid)
        try:
            plan = await self._decide(document, remembered)
            if plan is None:
                return "deleting"
            await self._applier.apply(document, plan)
        except NotLeading:
            self._queue.add_after(key, POLL)
            return "not leading"
        except DecideAgain as again:
            self._queue.add_after(key, again.after)
            return "again"
        except ChildRefused as error:
            return self._refused(key, remembered, error.refusal)
        except Unreachable as error:
            return self._failed(key, remembered, str(error), longest=self._longest_outage_retry)
        except ApiError as error:
            is_trouble = error.status in TROUBLE
            longest = self._longest_outage_retry if is_trouble else LONGEST_RETRY
            asked = min(error.retry_after or 0.0, LONGEST_RETRY)
            return self._failed(key, remembered, str(error), longest=longest, at_least=asked)
        except MISSHAPEN:
            logger.exception("an object cannot be decided", extra=fields(object=str(key)))
            self._retry(key, remembered)
            return UNDECIDABLE
        self._applied(document, plan, remembered)
        return "written" if plan.status is not None or plan.actions else "nothing to do"

    async def _decide(self, document: Document, remembered: Remembered) -> ReconcilePlan | None:
        """None: it is being deleted."""
        tree = document.json()
        if tree["metadata"].get("deletionTimestamp"):
            return None
        remembered.expire(boottime())
        found = await self._references.find(document, tree, remembered.missed)
        view = ObjectView(
            object=tree,
            children=self._informers.children.of(document.uid),
            pending=self._informers.reports.pending(document.uid),
            references=found,
            awaited=remembered.missed.awaited(boottime()),
            refusals=remembered.refusals,
            concerned=self._informers.node_index.concerned(document.key),
        )
        kind = KINDS[document.kind]
        settings = self._settings
        if settings.has_capabilities:
            settings = replace(settings, fresh_key=secrets.token_hex(KEY_BYTES))
        return decide(kind, view, now=datetime.now(UTC), settings=settings)

    # ── what comes of it ──

    def _applied(self, document: Document, plan: ReconcilePlan, remembered: Remembered) -> None:
        remembered.failures = 0
        self.folded += plan.folded
        self._note_refused(document, plan, remembered)
        if plan.waits_for and plan.waits_for != remembered.waits_for:
            logger.info("reports wait", extra=fields(object=str(document.key), why=plan.waits_for))
        remembered.waits_for = plan.waits_for
        for note in plan.events:
            self._events.tell(event(document, note))
        again_in = plan.again_in
        if remembered.refusals and remembered.refused_until is None:
            again_in = REFUSED_FOR if again_in is None else again_in
            remembered.refused_until = boottime() + again_in
        if again_in is not None:
            self._queue.add_after(document.key, again_in)

    def _note_refused(
        self, document: Document, plan: ReconcilePlan, remembered: Remembered
    ) -> None:
        """Once each, though plans may find it again until it is pruned."""
        found = {(it.node, it.report.epoch, it.report.seq): it for it in plan.refused}
        for number, note in found.items():
            if number not in remembered.refused:
                self.refused += 1
                logger.info(
                    "a report has no effect",
                    extra=fields(
                        object=str(document.key), node=note.node, seq=number[2], why=note.reason
                    ),
                )
        remembered.refused = frozenset(found)

    def _refused(self, key: ObjectKey, remembered: Remembered, refusal: ChildRefusal) -> str:
        """Decided anew at once, for the object to say so; once more the same is a failure."""
        if refusal in remembered.refusals:
            return self._failed(key, remembered, refusal.message)
        remembered.add(refusal)
        self._queue.add(key)
        return "rejected"

    def _failed(
        self,
        key: ObjectKey,
        remembered: Remembered,
        why: str,
        *,
        longest: float = LONGEST_RETRY,
        at_least: float = 0.0,
    ) -> str:
        delay = self._retry(key, remembered, longest=longest, at_least=at_least)
        logger.warning(
            "an object could not be written",
            extra=fields(object=str(key), why=why, delay=round(delay, 3)),
        )
        return FAILED

    def _retry(
        self,
        key: ObjectKey,
        remembered: Remembered,
        *,
        longest: float = LONGEST_RETRY,
        at_least: float = 0.0,
    ) -> float:
        """In how many seconds."""
        # Those that failed together, because the API server was slow, do not come together again:
        # all of them would be late each time.
        most = exponential(remembered.failures, first=FIRST_RETRY, longest=longest)
        delay = random.random() * most + at_least
        remembered.failures += 1
        self._queue.retry_after(key, delay)
        return delay

    @property
    def _longest_outage_retry(self) -> float:
        """Half of it is the mean."""
        thinned = 2 * self._queue.retries / RETRIES_A_SECOND
        return min(max(LONGEST_OUTAGE_RETRY, thinned), LONGEST_RETRY)
