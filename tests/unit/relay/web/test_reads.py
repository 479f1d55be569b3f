"""Reads before an upstream that lags, fails its lists, or goes while somebody waits."""

import asyncio
import json
import math
from collections.abc import Callable, Hashable
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict, CIMultiDictProxy

from edge_sidecars.apimachinery.objects import Item, Page, read_item
from edge_sidecars.apimachinery.request.request_info import (
    ListOptions,
    RequestInfo,
    get_version,
    representation,
)
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.shards import EVERYTHING, ShardSelector
from edge_sidecars.apimachinery.status import Refused, expired
from relay_sidecar.access.admission import CALLER, Caller
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import ObjectSeen, Record
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Limits, Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest
from relay_sidecar.upstream.streaming import LONG, StreamObserver
from relay_sidecar.web.reads.freshness import Freshness, ReadSettings
from relay_sidecar.web.reads.gets import Gets
from relay_sidecar.web.reads.lists import Lists
from relay_sidecar.web.reads.selection import ClientRead, Selection
from relay_sidecar.web.reads.watches import Watches, learn_nothing
from tests.unit.relay.streams.movers import Still
from tests.unit.relay.streams.samples import item, pod

PODS = ResourceName("", "v1", "pods")
PATH: Final = "/api/v1/namespaces/default/pods"
ANY: Final = "?resourceVersion=0"
LIMITS = Limits(
    max_objects=10,
    max_watchers=10,
    window_bytes=1 << 20,
    window_events=10,
    idle_timeout=60.0,
    retain=60.0,
    open_timeout=1.0,
)
SETTINGS = ReadSettings(
    reads_cache=False,
    read_timeout=1.0,
    request_timeout=1.0,
    max_watchers=10,
    watch_buffer=1 << 20,
)
EMPTY: Final = (
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[]}'
)
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
FORWARDED = web.Response(text="as upstream sent it")


class Link:
    """To upstream, as all streams see it. Lists fail where `is_failing`; asked what there is,
    upstream has nothing to add."""

    def __init__(self) -> None:
        self.is_up = True
        self.is_failing = False
        self.confirmed = 0


class Moved(Still):
    def __init__(self, link: Link, stream: Stream) -> None:
        stream.is_failing = link.is_failing
        self._link = link

    def is_open(self) -> bool:
        return self._link.is_up and not self._link.is_failing

    is_live = is_open

    def confirm(self) -> None:
        self._link.confirmed += 1


class RecordingJournal(Journal):
    """Keeps the versions of objects that outlast a restart."""

    def __init__(self) -> None:
        super().__init__(None)
        self.seen: list[int] = []

    async def commit(self, *records: Record) -> None:
        self.seen += [record.item.version for record in records if isinstance(record, ObjectSeen)]


class World:
    """What upstream answers to a GET, what the journal got, and a wall clock that ticks."""

    def __init__(self) -> None:
        self.link = Link()
        self.floor = MinResourceVersion()
        self.streams = Streams(
            lambda stream, owner, *, is_up: Moved(self.link, stream),
            self.floor,
            LIMITS,
            RelayCounters(),
            Journal(None),
            link=self.link,
        )
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.asked = 0
        # Bytes behind a list.
        self.padding = 0
        self.is_relayed = False
        self.cause = ""
        self.ticks = 1000.0
        self.while_asked: Callable[[], object] = lambda: None
        self.journal = RecordingJournal()
        self.freshness = Freshness(self.streams, self, self.journal, SETTINGS, wall=self._wall)
        self.gets = Gets(self.freshness)
        selection = Selection(self, self)
        self.lists = Lists(selection, self.freshness)
        self.watches = Watches(
            selection, self.freshness, chance=lambda: 0.0, learn_kind=learn_nothing
        )

    def _wall(self) -> float:
        self.ticks += 1.0
        return self.ticks

    # As `Upstream`.

    @property
    def is_up(self) -> bool:
        return self.link.is_up or self.is_relayed

    def question(self, asked: ClientRequest) -> Hashable:
        return asked.request.raw_path

    async def fetch(self, asked: ClientRequest) -> BufferedResponse:
        self.asked += 1
        await asyncio.sleep(0)
        version, headers = self.answers.pop(0)
        listed = EMPTY % version + b" " * self.padding
        body = pod("a", version) if asked.request.path.endswith("/a") else listed
        self.while_asked()
        return BufferedResponse(200, "OK", CIMultiDictProxy(CIMultiDict(headers)), body, body)

    async def write(self, asked: ClientRequest) -> BufferedResponse:
        raise NotImplementedError

    async def stream(
        self, asked: ClientRequest, observer: StreamObserver
    ) -> web.StreamResponse | BufferedResponse:
        raise NotImplementedError

    async def forward(
        self, request: web.BaseRequest, shards: ShardSelector = EVERYTHING
    ) -> web.StreamResponse:
        return FORWARDED

    # As `SelectableFields`.

    async def published(self, resource: ResourceName) -> frozenset[str] | None:
        return None

    # Clients.

    def hold(self, version: int, namespace: str = "") -> Stream:
        """A live stream of all, or of a namespace."""
        stream = self.streams.open(ListScope(PODS, namespace), now=0.0)
        stream.replace(Page("PodList", "v1", version, "", [item("a", 90)]), gone=expired())
        return stream

    async def get(self, query: str = "") -> web.Response:
        read = reading(f"{PATH}/a{query}")
        answer = await self.gets.answer(read, get_version(read.info.query))
        assert isinstance(answer, web.Response)
        return answer

    async def list(self, target: str = PATH) -> web.StreamResponse:
        read = reading(target)
        return await self.lists.answer(read, ListOptions.parse(read.info.query))

    def known(self) -> int:
        found = self.streams.newest(PODS, ("default", "a"))
        return 0 if found is None else found[0].version


def reading(target: str, accept: str = "application/json") -> ClientRead:
    request = make_mocked_request("GET", target)
    request[CALLER] = Caller()
    return ClientRead(
        request,
        RequestInfo.parse("GET", target),
        representation(accept),
    )


def version_of(answer: web.StreamResponse) -> str:
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    told = json.loads(answer.body)["metadata"]["resourceVersion"]
    assert isinstance(told, str)
    return told


@pytest.mark.parametrize(
    ("query", "answers", "shown"),
    [
        ("", [100], 100),
        (ANY, [100, 105], 105),
        ("?resourceVersion=90", [100, 105], 105),
        (ANY, [100, 100], 100),
        (ANY, [106], 106),
    ],
)
@pytest.mark.parametrize("resource", [PODS, ResourceName("", "v2", "pods")])
def test_what_upstreams_cache_has_not_come_to_its_newest_tells(
    query: str, answers: list[int], shown: int, resource: ResourceName
) -> None:
    """An object was written, in this API version or in another one. Without a version upstream
    tells also that it was restored."""

    async def scene(world: World) -> None:
        await world.freshness.remember(resource, item("a", 105), asked_at=world.ticks)
        world.answers = [(version, {}) for version in answers]
        assert version_of(await world.get(query)) == str(shown)
        assert (world.known(), world.answers) == (shown, [])

    asyncio.run(scene(World()))


def test_what_is_gone_is_not_shown_by_a_cache_that_still_has_it() -> None:
    async def scene(world: World) -> None:
        await world.freshness.forget(PODS, ("default", "a"))
        world.answers = [(100, {}), (110, {})]
        assert version_of(await world.get(ANY)) == "110"
        world.answers = [(110, {})]
        assert version_of(await world.get(ANY)) == "110"

    asyncio.run(scene(World()))


def test_a_relay_that_is_cut_off_itself_is_not_asked_for_its_newest() -> None:
    async def scene(world: World) -> None:
        await world.freshness.remember(ResourceName("", "v2", "pods"), item("a", 105))
        world.answers = [(100, {"Age": "7"})]
        assert version_of(await world.get(ANY)) == "100"

    asyncio.run(scene(World()))


def test_a_late_answer_does_not_replace_a_write_in_the_journal() -> None:
    async def scene(world: World) -> None:
        def write() -> None:
            world.streams.seen.remember(PODS, item("a", 105), at=world._wall())

        world.answers, world.while_asked = [(100, {})], write
        await world.get()
        assert (world.known(), world.journal.seen) == (105, [])

    asyncio.run(scene(World()))


def test_one_object_is_asked_for_by_itself_where_its_stream_is_not_new_enough() -> None:
    """The stream is confirmed beside it, for those that come later."""

    async def scene(world: World) -> None:
        world.hold(100)
        world.floor.raise_to(PODS, 200)
        world.answers = [(90, {})]
        assert (await world.get(ANY)).status == 200
        assert (world.asked, world.link.confirmed) == (1, 1)

    asyncio.run(scene(World()))


@pytest.mark.parametrize(
    ("source", "is_coming"),
    [
        (None, True),
        (item("b", 200), True),
        (read_item(pod("b", 200, namespace="elsewhere")), False),
        (ListScope(PODS, "elsewhere"), False),
    ],
    ids=["unknown", "here", "elsewhere", "list"],
)
def test_nobody_waits_for_an_event_that_does_not_come(
    source: Item | ListScope | None, is_coming: bool
) -> None:
    """What was handed out of another namespace is asked about at once."""

    async def scene(world: World) -> None:
        stream = world.hold(100, "default")
        world.floor.raise_to(PODS, 200, source)
        listing = asyncio.create_task(world.list(f"{PATH}{ANY}"))
        await asyncio.sleep(0)
        assert stream.is_waited_for
        assert world.link.confirmed == (0 if is_coming else 1)
        stream.expect(ListEvidence(201, stream.collection.fingerprint, 0.0, 0.0, 0))
        assert version_of(await listing) == "201"

    asyncio.run(scene(World()))


def test_a_get_that_waits_while_the_link_goes_tells_its_age() -> None:
    async def scene(world: World) -> None:
        stream = world.hold(100)
        world.floor.raise_to(PODS, 200)
        waiting = asyncio.create_task(world.get(ANY))
        await asyncio.sleep(0)
        assert stream.is_waited_for
        world.link.is_up = False
        stream.nudge()
        assert "Age" in (await waiting).headers

    asyncio.run(scene(World()))


def test_what_is_unknown_while_the_link_is_down_is_no_404() -> None:
    """kubelet would end a pod over a 404."""

    async def scene(world: World) -> None:
        world.link.is_up = False
        with pytest.raises(Refused) as refused:
            await world.get()
        assert refused.value.status.code == 503

    asyncio.run(scene(World()))


@pytest.mark.parametrize("padding", [0, 2 * LONG])
def test_a_long_list_is_read_beside_the_event_loop(padding: int) -> None:
    """Others are answered meanwhile: whatever was due when the answer came is done first."""

    async def scene(world: World) -> None:
        floors: list[int] = []
        loop = asyncio.get_running_loop()
        world.answers, world.padding = [(200, {})], padding
        world.while_asked = lambda: loop.call_soon(lambda: floors.append(world.floor.of(PODS)))
        listing = reading(f"{PATH}?limit=500")
        await world.lists.answer(listing, ListOptions.parse(listing.info.query))
        await asyncio.sleep(0)
        assert floors == [0 if padding else 200]

    asyncio.run(scene(World()))


@pytest.mark.parametrize(("of_relay", "told"), [(99, "100"), (101, "101")])
def test_an_upper_relay_that_is_cut_off_takes_nobody_back(of_relay: int, told: str) -> None:
    """It need not have learned what it passed on: its list, and its object, may be older than those
    that the lower relay has answered with."""

    async def scene(world: World) -> None:
        stream = world.hold(90)
        stream.expect(ListEvidence(100, stream.collection.fingerprint, 0.0, 0.0, 0))
        world.link.is_up, world.is_relayed = False, True
        world.answers = [(of_relay, {"Age": "1"})]
        listed = await world.list()
        assert (version_of(listed), "Age" in listed.headers) == (told, True)
        await world.freshness.remember(PODS, item("a", 100), asked_at=world.ticks)
        world.answers = [(of_relay, {"Age": "1"})]
        got = await world.get()
        assert (version_of(got), "Age" in got.headers) == (told, True)

    asyncio.run(scene(World()))


def test_an_upper_relay_that_is_cut_off_brings_back_nothing_that_is_deleted() -> None:
    """In metadata either."""

    async def scene(world: World) -> None:
        stream = world.hold(100)
        stream.replace(Page("PodList", "v1", 105, "", []), gone=expired())
        world.link.is_up, world.is_relayed = False, True
        for accept in ("application/json", METADATA):
            world.answers = [(100, {"Age": "1"})]
            gone = await world.gets.answer(reading(f"{PATH}/a", accept), None)
            assert (gone.status, "Age" in gone.headers) == (404, True)

    asyncio.run(scene(World()))


def test_a_list_at_exactly_a_version_tells_that_version() -> None:
    """Also where the stream is known to have been upstream's at a later one."""

    async def scene(world: World) -> None:
        stream = world.hold(100)
        stream.expect(ListEvidence(150, stream.collection.fingerprint, 0.0, 0.0, 0))
        assert stream.version == 150
        for version in ("100", "150"):
            target = f"{PATH}?resourceVersion={version}&resourceVersionMatch=Exact"
            assert version_of(await world.list(target)) == version

    asyncio.run(scene(World()))


@pytest.mark.parametrize(
    "query", ["", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "&resourceVersion=0"]
)
def test_a_watch_is_passed_on_where_upstream_fails_the_streams_list(query: str) -> None:
    async def permit() -> float:
        return 0.0

    async def scene(world: World) -> None:
        world.link.is_failing = True
        target = f"{PATH}?watch=true{query}"
        read = reading(target)
        options = ListOptions.parse(read.info.query)
        answer = await world.watches.answer(read, options, permit)
        assert answer is FORWARDED

    asyncio.run(scene(World()))


def test_a_watch_tells_the_age_of_its_state_where_the_link_went_before_it_begins() -> None:
    async def scene(world: World) -> None:
        world.hold(100)

        async def permit() -> float:
            world.link.is_up = False
            return math.inf

        target = f"{PATH}?watch=true&resourceVersion=0&timeoutSeconds=1"
        read = reading(target)
        options = ListOptions.parse(read.info.query)
        answer = await world.watches.answer(read, options, permit)
        assert "Age" in answer.headers

    asyncio.run(scene(World()))
