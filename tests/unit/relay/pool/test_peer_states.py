"""What a stream takes of peers while nobody reaches the API server; the peers are made up."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence

import pytest

from edge_sidecars.apimachinery.objects import read_page
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiError, ApiTransport, Plain, Unreachable
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.config.preload import Preload
from relay_sidecar.core.link import LinkEvidence, UpstreamLink
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.core.pool_sources import PoolSources, SourcesLine
from relay_sidecar.journal.journal import Journal
from relay_sidecar.pool.hub_reads import HubReads
from relay_sidecar.pool.own_rights import OwnRights
from relay_sidecar.pool.peer_states import PeerStates
from relay_sidecar.streams.fanout import StreamView, Watcher
from relay_sidecar.streams.framing import as_lines
from relay_sidecar.streams.streams import Limits, Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector.feed import CloudFeed
from relay_sidecar.upstream.reflector.reflectors import Reflectors
from tests.unit.relay.streams.samples import pod
from tests.unit.relay.upstream.test_reflector import FakeSource, pods

PODS = ListScope(ResourceName("", "v1", "pods"))
AGE = 40.0


class Peers(HubReads):
    """`bodies`: what each answers to a list; an error is raised."""

    def __init__(self, bodies: dict[str, bytes | Exception]) -> None:
        self.bodies = bodies
        self.asked: list[str] = []

    async def page(
        self,
        peer: str,
        path: str,
        params: Mapping[str, str],
        *,
        aged: Callable[[float], None],
        accept: str = "application/json",
    ) -> bytearray:
        assert params["resourceVersion"] == "0", "any version will do"
        self.asked.append(peer)
        body = self.bodies[peer]
        if isinstance(body, Exception):
            raise body
        aged(AGE)
        return bytearray(body)

    def batches(
        self, peer: str, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        raise AssertionError("nobody watches a peer")


class Scene:
    """A stream of pods at version 10 with one of them; what peers say that they know."""

    def __init__(
        self,
        bodies: dict[str, bytes | Exception],
        *,
        cursors: Mapping[str, int],
        hub: str = "",
        may_read: bool = True,
    ) -> None:
        transport = ApiTransport(Plain("http://127.0.0.1"), user_agent="relay-sidecar/test")
        link = UpstreamLink(probe_interval=1e6, probe_timeout=1.0)
        self.probe = LinkProbe(transport, link)
        for _ in range(2):
            self.probe.met(LinkEvidence.REFUSED)
        feed = CloudFeed(FakeSource(lambda *_: b""), self.probe)
        self.streams = Streams(
            lambda owner: Reflectors(
                lambda stream: feed, Journal(None), self.probe, owner, spawn=asyncio.create_task
            ),
            MinResourceVersion(),
            Limits(1000, 100, 1 << 20, 100, 600.0, 9e9, 5.0),
            RelayCounters(),
        )
        page = read_page(pods(10, pod("a", 5)))
        self.streams.restore(PODS, page, equal_at=0, confirmed_at=1.0, now=0.0)
        (self.stream,) = self.streams
        self.streams.use(self.stream, now=0.0)
        sources = PoolSources()
        peers = [
            {"node": it, "cursors": {str(PODS.resource): str(at)}, "live": [str(PODS.resource)]}
            for it, at in cursors.items()
        ]
        line = {"detour": False, "via": "", "validSeconds": 6, "peers": peers}
        line |= {"hub": {"node": hub}} if hub else {}
        sources.heard(SourcesLine.parse(json.dumps(line).encode()), boottime())
        self.peers = Peers(bodies)
        saved = {str(PODS).encode(): b""} if may_read else {}
        rights = OwnRights(_not_asked, link, Journal(None), saved, ttl=1e9)
        declared = [Preload("pods", "", "v1")]
        self.states = PeerStates(declared, sources, self.peers, self.streams, link, rights)

    def watch(self) -> None:
        watcher = Watcher(Wire(), framing=as_lines, allows_bookmarks=False, limit=1 << 20)
        self.stream.feed(StreamView()).join(watcher)


class Wire(asyncio.WriteTransport):
    """Takes everything."""

    def write(self, data: object) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0


async def _not_asked(*_: object) -> tuple[bool, str]:
    raise AssertionError("the API server is out of reach")


def play(scene: Callable[[], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        await scene()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(run())


def at(scene: Scene) -> tuple[int, list[str]]:
    return scene.stream.version, [it.key[1] for it in scene.stream.items()]


def test_it_is_the_list_of_the_peer_that_stands_furthest_with_its_age() -> None:
    async def scene() -> None:
        theirs = pods(30, pod("a", 5), pod("b", 28))
        found = Scene({"n3": theirs}, cursors={"n2": 20, "n3": 30, "n4": 9})
        await found.states.look()
        assert found.peers.asked == ["n3"]
        assert at(found) == (30, ["a", "b"])
        assert AGE <= time.time() - found.stream.confirmed_at < AGE + 5
        assert not found.streams.is_live(found.stream)
        await found.states.look()
        assert found.peers.asked == ["n3"], "nobody stands further"

    play(scene)


@pytest.mark.parametrize(
    ("theirs", "ended"), [([pod("a", 5)], False), ([pod("a", 5), pod("b", 28)], True)]
)
def test_watchers_begin_anew_only_where_the_objects_are_others(
    theirs: list[bytes], ended: bool
) -> None:
    async def scene() -> None:
        found = Scene({"n3": pods(30, *theirs)}, cursors={"n3": 30})
        found.watch()
        await found.states.look()
        assert at(found)[0] == 30
        assert (found.stream.watchers == 0) is ended

    play(scene)


@pytest.mark.parametrize(
    "answer",
    [
        pods(10, pod("a", 5)),
        pods(9),
        pods(30).replace(b'"30"', b'"30","continue":"more"'),
        b"{",
        b"{}",
        b"[" * 100_000,
        Unreachable("503: it is the same here"),
        ApiError(503, "ServiceUnavailable", "no stream"),
    ],
)
def test_a_peer_that_brings_nothing_newer_changes_nothing_and_is_left(
    answer: bytes | Exception,
) -> None:
    async def scene() -> None:
        found = Scene({"n3": answer}, cursors={"n3": 2**63})
        found.watch()
        for _ in range(20):
            await found.states.look()
        assert found.peers.asked == ["n3"]
        assert at(found) == (10, ["a"])
        assert found.stream.watchers == 1

    play(scene)


def test_another_peer_is_asked_where_the_furthest_does_not_answer() -> None:
    async def scene() -> None:
        bodies: dict[str, bytes | Exception] = {"n2": pods(20), "n3": Unreachable("it is dead")}
        found = Scene(bodies, cursors={"n2": 20, "n3": 30})
        await found.states.look()
        await found.states.look()
        assert found.peers.asked == ["n3", "n2"]
        assert at(found) == (20, [])

    play(scene)


def test_nobody_is_asked_with_a_link_with_a_hub_or_without_the_right() -> None:
    async def scene() -> None:
        bodies: dict[str, bytes | Exception] = {"n3": pods(30)}
        fed = Scene(bodies, cursors={"n3": 30}, hub="n3")
        denied = Scene(bodies, cursors={"n3": 30}, may_read=False)
        linked = Scene(bodies, cursors={"n3": 30})
        linked.probe.met(LinkEvidence.ANSWERED)
        for it in (fed, denied, linked):
            await it.states.look()
            assert it.peers.asked == []

    play(scene)
