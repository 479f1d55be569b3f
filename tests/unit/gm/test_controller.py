"""When objects are looked at again after failures, and what others notice of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import pytest

from edge_sidecars.controllers.event_recorder import Event
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from gm.cache.informers import Informers
from gm.controller import controller
from gm.controller.applier import ChildRefused
from gm.controller.controller import Controller
from gm.controller.ownership import OwnershipListener, everything
from gm.controller.reference_lookup import MissedReferences
from gm.core.engine.plan import ChildRefusal, ReconcilePlan
from gm.core.kind import WorkerSettings
from tests.unit.gm.documents import document

CONCURRENCY = 4
SPEC = {"nodeName": "n", "url": "/x.csv", "format": "csv"}


class Owning:
    """Everything but the uids of `others`; nothing where `*` is among them."""

    def __init__(self) -> None:
        self.others: set[str] = set()
        self.share = 1.0

    @property
    def owns_any(self) -> bool:
        return "*" not in self.others

    def owns(self, uid: str) -> bool:
        return self.owns_any and uid not in self.others

    def may_act(self, uid: str) -> bool:
        return self.owns(uid)

    def watch(self, listener: OwnershipListener) -> None:
        """The tests call it themselves."""


class Told:
    def tell(self, event: Event) -> None:
        """Nobody listens."""


class NoReferences:
    def __init__(self) -> None:
        self.forgotten = 0

    async def find(
        self, document: Document, tree: Json, missed: MissedReferences
    ) -> Mapping[ObjectKey, Json | None]:
        return {}

    def forget(self) -> None:
        self.forgotten += 1


class Applier:
    """`fails`: what becomes of objects whose name begins with bad; `tries` by name, with when."""

    def __init__(self, fails: Callable[[], Awaitable[None]]) -> None:
        self._fails = fails
        self.tries: list[tuple[str, float]] = []

    async def apply(self, document: Document, plan: ReconcilePlan) -> None:
        self.tries.append((document.name, time.monotonic()))
        if document.name.startswith("bad"):
            await self._fails()

    def of(self, name: str) -> int:
        return sum(tried == name for tried, _ in self.tries)


class World:
    def __init__(self, fails: Callable[[], Awaitable[None]]) -> None:
        self.applier = Applier(fails)
        informers = Informers(lambda: True)
        for collection in informers.collections.values():
            collection.sources[""].replaced([], 1)
        self.owning = Owning()
        self.references = NoReferences()
        self.controller = Controller(
            informers,
            self.owning,  # type: ignore[arg-type]
            self.applier,  # type: ignore[arg-type]
            Told(),  # type: ignore[arg-type]
            self.references,  # type: ignore[arg-type]
            settings=WorkerSettings("", ""),
            concurrency=CONCURRENCY,
        )
        self._datasets = informers.collections["dataset"].sources[""]
        self._version = 1

    def put(self, name: str, *, uid: str = "") -> None:
        self._version += 1
        self._datasets.changed(document("dataset", name, version=self._version, uid=uid, spec=SPEC))

    def delete(self, name: str) -> None:
        self._version += 1
        self._datasets.deleted(document("dataset", name, version=self._version, spec=SPEC))

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_so():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)


def playing(fails: Callable[[], Awaitable[None]], play: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(fails)
        running = asyncio.create_task(world.controller.run())
        await asyncio.sleep(0)
        try:
            await play(world)
        finally:
            running.cancel()
            await asyncio.wait({running})

    asyncio.run(run())


async def hang() -> None:
    await asyncio.sleep(0.2)
    raise Unreachable("no answer")


def test_objects_whose_writes_hang_do_not_hold_up_others() -> None:
    async def play(world: World) -> None:
        for number in range(50):
            world.put(f"bad-{number}")
        # Each has failed once, and is in the way again.
        await world.until(lambda: len({name for name, _ in world.applier.tries}) == 50)
        before = len(world.applier.tries)
        for number in range(50):
            world.put(f"good-{number}")
        await world.until(lambda: world.applier.of("good-49") == 1)
        # Of those fifty that stood before them, a few had their turn.
        again = [name for name, _ in world.applier.tries[before:] if name.startswith("bad")]
        assert len(again) < 20

    playing(hang, play)


def test_an_api_server_that_says_when_is_not_asked_earlier() -> None:
    async def busy() -> None:
        raise ApiError(429, "TooManyRequests", "later", retry_after=1.0)

    async def play(world: World) -> None:
        world.put("bad")
        await world.until(lambda: world.applier.of("bad") >= 2)
        (_, first), (_, second) = world.applier.tries[:2]
        assert second - first >= 1.0

    playing(busy, play)


def test_however_many_fail_an_api_server_in_trouble_is_asked_only_so_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unreachable() -> None:
        raise Unreachable("refused")

    async def play(world: World) -> None:
        for number in range(300):
            world.put(f"bad-{number}")
        # Until the delays have grown to where they stay.
        await asyncio.sleep(4)
        before = len(world.applier.tries)
        await asyncio.sleep(2)
        assert 0 < len(world.applier.tries) - before < 2 * 2 * 200
        assert world.controller.retries > 200

    monkeypatch.setattr(controller, "RETRIES_A_SECOND", 200.0)
    monkeypatch.setattr(controller, "LONGEST_OUTAGE_RETRY", 0.1)
    monkeypatch.setattr(controller, "FIRST_RETRY", 0.02)
    playing(unreachable, play)


def test_of_what_is_gone_nothing_is_remembered() -> None:
    """An object of the same name is another one: what was rejected for the old one is tried."""
    rejection = ChildRefusal("Pod", "bad-pod", "hash", "quota")

    async def rejected() -> None:
        raise ChildRefused(rejection)

    async def play(world: World) -> None:
        world.put("bad")
        await world.until(lambda: world.controller.retries == 1)
        world.delete("bad")
        # Twice where a retry was due.
        await world.until(lambda: world.controller.outcomes["gone"] >= 1)
        # ChildRefused once more before it counts as a failure: each is known for the first time.
        world.put("bad")
        await world.until(lambda: world.controller.outcomes["rejected"] == 2)
        await world.until(lambda: world.controller.retries == 1)
        world.put("bad", uid="of another")
        await world.until(lambda: world.controller.outcomes["rejected"] == 3)

    playing(rejected, play)


def test_what_nobody_foresaw_is_counted_apart_from_failed_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never() -> None:
        raise AssertionError

    def decide(*_: object, **__: object) -> ReconcilePlan:
        raise KeyError("spec")

    async def play(world: World) -> None:
        assert world.controller.outcomes == {"failed": 0, "undecidable": 0}
        world.put("any")
        await world.until(lambda: world.controller.outcomes["undecidable"] >= 1)
        assert world.controller.outcomes["failed"] == 0

    monkeypatch.setattr(controller, "decide", decide)
    playing(never, play)


async def well() -> None:
    """Nothing fails."""


def test_of_another_gms_objects_nothing_is_decided_until_they_are_gained() -> None:
    async def play(world: World) -> None:
        world.owning.others = {"theirs"}
        world.put("a", uid="ours")
        world.put("b", uid="theirs")
        await world.until(lambda: world.applier.of("a") == 1)
        assert world.applier.of("b") == 0
        world.owning.others = set()
        # From what is known already: nothing is listed, and the others rest.
        world.controller.gained(lambda uid: uid == "theirs")
        await world.until(lambda: world.applier.of("b") == 1)
        assert world.applier.of("a") == 1

    playing(well, play)


def test_what_is_lost_is_given_up_when_what_was_begun_has_ended() -> None:
    begun, ends = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await ends.wait()
        raise Unreachable("late")

    async def play(world: World) -> None:
        world.put("bad", uid="lost")
        world.put("good", uid="kept")
        await begun.wait()
        world.owning.others = {"lost"}
        world.controller.lost(lambda uid: uid == "lost")
        await world.until(lambda: world.applier.of("good") == 1)
        await world.controller.stopped(lambda uid: uid == "kept")
        stopping = asyncio.create_task(world.controller.stopped(lambda uid: uid == "lost"))
        await asyncio.sleep(0.05)
        assert not stopping.done()
        ends.set()
        await stopping
        # It failed, and is not this GM's to try again.
        tries = world.applier.of("bad")
        world.put("bad", uid="lost")
        await world.until(lambda: world.controller.retries == 0)
        assert world.applier.of("bad") == tries
        # Objects that are kept still wait for their Secrets.
        assert world.references.forgotten == 0
        world.owning.others = {"*"}
        world.controller.lost(everything)
        assert world.references.forgotten == 1

    playing(slow, play)


def test_what_waits_of_lost_objects_is_discarded_and_nothing_else() -> None:
    async def unreachable() -> None:
        raise Unreachable("refused")

    async def play(world: World) -> None:
        for uid in ("lost", "kept"):
            world.put(f"bad-{uid}", uid=uid)
        await world.until(lambda: world.applier.of("bad-lost") > 0 < world.applier.of("bad-kept"))
        world.owning.others = {"lost"}
        world.controller.lost(lambda uid: uid == "lost")
        tries, before = world.applier.of("bad-lost"), world.applier.of("bad-kept")
        await world.until(lambda: world.applier.of("bad-kept") > before + 1)
        assert world.applier.of("bad-lost") == tries

    playing(unreachable, play)


@pytest.mark.parametrize(("share", "at_a_time"), [(1.0, 4), (0.6, 3), (0.1, 2), (0.0, 2)])
def test_a_gm_works_on_its_share_of_what_may_be_worked_on_at_a_time(
    share: float, at_a_time: int
) -> None:
    ends = asyncio.Event()

    async def play(world: World) -> None:
        world.owning.share = share
        world.controller.lost(lambda uid: False)
        # Those that waited for the next object when there was more to do take one each, and rest.
        for number in range(CONCURRENCY):
            world.put(f"good-{number}")
        await world.until(lambda: len(world.applier.tries) == CONCURRENCY)
        for number in range(10):
            world.put(f"bad-{number}")
        await asyncio.sleep(0.05)
        assert len(world.applier.tries) == CONCURRENCY + at_a_time
        # More is to do: who rested goes on.
        world.owning.share = 1.0
        world.controller.gained(lambda uid: False)
        await world.until(lambda: len(world.applier.tries) == 2 * CONCURRENCY)
        ends.set()
        await world.until(lambda: len({name for name, _ in world.applier.tries}) == 14)

    async def slow() -> None:
        await ends.wait()

    playing(slow, play)
