"""A stream's requests, against an upstream that answers as few do."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.kubeapi import ApiError, ApiTransport, Plain
from relay_sidecar.core.link import LinkEvidence, UpstreamLink
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.core.stream import reflection
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import EventsApplied, Record
from relay_sidecar.streams.fanout import StreamView, Watcher, as_lines
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Limits, Streams
from relay_sidecar.streams.sweep import Sweep
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector import reflector
from relay_sidecar.upstream.reflector.reflector import ReflectorFactory
from relay_sidecar.upstream.reflector.source import CloudFeed, UpstreamSource
from tests.unit.relay.streams.samples import line, pod

PODS = ListScope(ResourceName("", "v1", "pods"))
TABLE = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"10"}}'


def pods(version: int, *objects: bytes) -> bytes:
    return (
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}'
        % (
            version,
            b",".join(objects),
        )
    )


@dataclass
class FakeSource(UpstreamSource):
    """`answer` makes a body of what is accepted, and the number of lists before."""

    answer: Callable[[str, int], bytes]
    age: float | None = None
    lists: int = 0
    accepted: list[str] = field(default_factory=list)
    is_allowed: bool = True
    is_ready: bool = True
    asked_ready: int = 0
    watches: int = 0
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    async def page(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        accept: str = "application/json",
        arrived: Callable[[bytearray], None] | None = None,
        aged: Callable[[float], None] | None = None,
    ) -> bytearray:
        if path == "/readyz":
            self.asked_ready += 1
            if not self.is_ready:
                raise ApiError(500, "InternalError", "[-]informer-sync failed")
            return bytearray(b"ok")
        self.accepted.append(accept)
        body = bytearray(self.answer(accept, self.lists))
        self.lists += arrived is not None
        if aged is not None and self.age is not None:
            aged(self.age)
        return body

    async def batches(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        self.watches += 1
        if not self.is_allowed:
            raise ApiError(403, "Forbidden", "it may not")
        yield []
        while (line := await self.lines.get()) is not None:
            yield [line] if line else []


class SlowJournal(Journal):
    """Commits events while `gate` is open."""

    def __init__(self) -> None:
        super().__init__(None)
        self.gate, self.is_committing = asyncio.Event(), asyncio.Event()

    def begin(self, *records: Record) -> asyncio.Future[None] | None:
        if not any(isinstance(record, EventsApplied) for record in records):
            return None
        self.is_committing.set()
        return asyncio.create_task(self._opened())

    async def _opened(self) -> None:
        await self.gate.wait()


def link_that_is_up() -> LinkProbe:
    transport = ApiTransport(Plain("http://127.0.0.1"), user_agent="relay-sidecar/test")
    probe = LinkProbe(transport, UpstreamLink(probe_interval=1e6, probe_timeout=1.0))
    probe.met(LinkEvidence.ANSWERED)
    return probe


class Scene:
    def __init__(self, source: FakeSource) -> None:
        self.source, self.journal = source, SlowJournal()
        limits = Limits(1000, 100, 1 << 20, 100, 600.0, 9e9, 5.0)
        probe = link_that_is_up()
        self.streams = Streams(
            ReflectorFactory(
                lambda stream: CloudFeed(source, probe), self.journal, spawn=asyncio.create_task
            ),
            MinResourceVersion(),
            limits,
            RelayCounters(),
            self.journal,
            link=probe,
        )
        self.streams.link(True)
        self.stream = self.streams.open(PODS, now=0.0)

    async def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(2000):
            if is_so():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it did not become so")


def no_metadata(accept: str, _: int) -> bytes:
    if "as=" in accept:
        raise ApiError(406, "NotAcceptable", "only json")
    return pods(10, pod("a", 5))


def a_table(accept: str, _: int) -> bytes:
    return TABLE if "as=" in accept else pods(10, pod("a", 5))


@pytest.mark.parametrize("answer", [no_metadata, a_table])
def test_a_stream_whose_metadata_cannot_be_had_is_live_all_the_same(
    answer: Callable[[str, int], bytes],
) -> None:
    async def play() -> None:
        it = Scene(FakeSource(answer))
        await it.until(lambda: it.stream.is_live())
        assert it.source.accepted[1].endswith(",application/json;q=0.5")
        assert it.source.accepted[-1] == "application/json"
        it.stream.stop()

    asyncio.run(play())


def test_a_list_of_a_relay_that_is_behind_takes_nothing_back() -> None:
    """The watch expires, and the relay above answers from what it has; then it has caught up."""

    def answer(accept: str, lists: int) -> bytes:
        source.age = 30.0 if lists == 1 else None
        return pods(7, pod("a", 4)) if lists == 1 else pods(10 + lists, pod("a", 5))

    source = FakeSource(answer)

    async def play() -> None:
        source.lines = asyncio.Queue()
        it = Scene(source)
        await it.until(lambda: it.stream.is_open())
        source.lines.put_nowait(line("ERROR", b'{"kind":"Status","code":410,"reason":"Expired"}'))
        await it.until(lambda: source.lists >= 2)
        assert it.stream.version == 10
        await it.until(lambda: it.stream.lists == 2)
        assert (it.stream.turns, it.stream.version) == (0, 12)
        it.stream.stop()

    asyncio.run(play())


def test_a_list_that_has_an_age_is_never_one_of_now() -> None:
    async def play() -> None:
        it = Scene(FakeSource(lambda _accept, _lists: pods(10, pod("a", 5)), age=0.0))
        await it.until(lambda: it.stream.is_open())
        assert not it.streams.is_current(it.stream, 0.0)
        it.stream.stop()

    asyncio.run(play())


def test_events_that_are_being_kept_when_their_history_is_forgotten_are_not_shown() -> None:
    held: list[int] = []

    async def play() -> None:
        def answer(_accept: str, _lists: int) -> bytes:
            held.append(len(it.stream.collection.objects))
            return pods(1000)

        it = Scene(FakeSource(answer))
        await it.until(lambda: it.stream.is_open())
        it.source.lines.put_nowait(line("ADDED", pod("lost", 1005)))
        await it.journal.is_committing.wait()
        it.streams.stands_at(PODS.resource, 520)
        assert not it.stream.collection.is_synced
        it.journal.gate.set()
        await it.until(lambda: it.stream.collection.is_synced)
        assert not any(held)
        assert it.streams.newest(PODS.resource, ("default", "lost")) is None
        it.stream.stop()

    asyncio.run(play())


def test_events_that_are_being_kept_when_their_watch_ends_are_taken_whole() -> None:
    async def play() -> None:
        it = Scene(FakeSource(lambda _accept, _lists: pods(1000)))
        await it.until(lambda: it.stream.is_open())
        it.source.lines.put_nowait(line("ADDED", pod("late", 1005)))
        await it.journal.is_committing.wait()
        it.streams.link(False)
        await asyncio.sleep(0)
        assert it.stream.version == 1000
        it.journal.gate.set()
        await it.until(lambda: it.stream.version == 1005)
        it.streams.link(True)
        await it.until(lambda: it.stream.is_open())
        assert it.streams.newest(PODS.resource, ("default", "late")) is not None
        it.stream.stop()

    asyncio.run(play())


def test_narrow_watches_move_only_to_a_stream_that_has_been_watched_whole_for_long() -> None:
    narrow_scope = ListScope(PODS.resource, namespace="default")

    def watch(stream: Stream) -> Watcher:
        transport = asyncio.WriteTransport()
        watcher = Watcher(transport, framing=as_lines, allows_bookmarks=False, limit=1000)
        stream.broadcaster(StreamView()).join(watcher)
        return watcher

    async def play() -> None:
        it = Scene(FakeSource(lambda _accept, _lists: pods(10, pod("a", 5))))
        it.stream.stop()
        sweep = Sweep(it.streams)
        narrow = it.streams.open(narrow_scope, now=0.0)
        it.streams.use(it.stream, now=0.0)
        await it.until(lambda: all(each.is_live() for each in it.streams))
        watcher, whole = watch(narrow), watch(it.stream)
        assert not sweep.close_covered(now=0.0)
        assert not sweep.close_covered(now=599.0)
        it.stream.broadcaster(StreamView()).leave(whole)
        assert not sweep.close_covered(now=605.0)
        watch(it.stream)
        assert not sweep.close_covered(now=610.0)
        turns = it.stream.turns
        assert sweep.close_covered(now=1210.0) == [narrow]
        it.stream.forget(gone=expired())
        assert (watcher.moved_at, narrow.successor_turns) == (10, turns)
        it.stream.stop()

    asyncio.run(play())


async def refused(*, is_ready: bool) -> Scene:
    """Of a stream that was live, whose watch ended, and which upstream refuses now."""
    it = Scene(FakeSource(lambda _accept, _lists: pods(10, pod("a", 5))))
    await it.until(lambda: it.stream.is_live())
    it.source.is_allowed, it.source.is_ready = False, is_ready
    it.source.lines.put_nowait(None)
    return it


def is_kept(it: Scene) -> bool:
    return not it.stream.is_dropped and it.stream.collection.is_synced


def test_what_an_api_server_refuses_before_it_is_ready_is_kept() -> None:
    """It was started anew, and has yet to read the roles."""

    async def play() -> None:
        it = await refused(is_ready=False)
        source = it.source
        await it.until(lambda: source.asked_ready >= 3)
        assert is_kept(it)
        assert it.streams.refusal(PODS, now=0.0) is None
        source.is_ready = True
        source.is_allowed = True
        await it.until(lambda: it.stream.is_live())
        assert (it.stream.lists, source.lists) == (1, 1)
        it.stream.stop()

    asyncio.run(play())


def test_what_an_api_server_refuses_that_never_gets_ready_is_dropped_after_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "LONGEST_START", 1.0)

    async def play() -> None:
        it = await refused(is_ready=False)
        source = it.source
        await it.until(lambda: source.asked_ready >= 2)
        assert is_kept(it)
        await it.until(lambda: it.stream.is_dropped)

    asyncio.run(play())


def test_what_an_api_server_that_is_ready_refuses_again_is_dropped() -> None:
    async def play() -> None:
        it = await refused(is_ready=True)
        source = it.source
        await it.until(lambda: it.stream.is_dropped)
        # With the one before.
        assert (source.watches, source.asked_ready) == (3, 1)

    asyncio.run(play())


def test_while_a_long_event_comes_its_watch_is_neither_silent_nor_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflection, "SILENCE_LIMIT", 2.0)

    async def play() -> None:
        source = FakeSource(no_metadata)
        scene = Scene(source)
        await scene.until(scene.stream.is_open)
        for _ in range(15):
            await asyncio.sleep(0.2)
            source.lines.put_nowait(b"")
        assert source.watches == 1
        await scene.until(lambda: source.watches == 2)

    asyncio.run(play())
