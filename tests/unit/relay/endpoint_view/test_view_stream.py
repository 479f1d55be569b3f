"""How the stream of the endpoint view follows upstream's, over lists, cuts, refusals and restarts;
without a network, with a stream that the test moves.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping

from edge_sidecars.apimachinery.objects import Event, Item, Page
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.watch_events import EventType, Failure
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.core.verdicts import Verdicts
from relay_sidecar.endpoint_view.view_stream import SLICES, EndpointView
from relay_sidecar.endpoint_view.view_version import LAST, PersistedVersion, view_version
from relay_sidecar.journal.journal import Journal
from relay_sidecar.pool.sources import PoolSources, SourcesLine
from relay_sidecar.streams.stream import Stream
from tests.unit.relay.endpoint_view.slices import conditions, endpoint, endpoint_slice
from tests.unit.relay.streams.movers import still_streams
from tests.unit.relay.web.test_reads import LIMITS

JUMP = 40


def item(name: str, version: int, *nodes: str) -> Item:
    made = [endpoint(node, f"{name}-{node}") for node in nodes or ("n1", "n2")]
    return Item(("default", name), version, endpoint_slice(name, made, version=version))


class Node:
    """A relay's streams, the pool's words, and the view over both."""

    def __init__(self, saved: Mapping[bytes, bytes] | None = None) -> None:
        self.streams = still_streams(LIMITS)
        self.pool = PoolSources()
        self.view = EndpointView(
            self.streams,
            self.pool,
            Journal(None),
            saved or {},
            cut_since=lambda: None,
            chance=lambda: JUMP,
        )

    @property
    def source(self) -> Stream:
        return self.streams.open(SLICES, now=0.0)

    def lists(self, version: int, *items: Item) -> None:
        page = Page("EndpointSliceList", "discovery.k8s.io/v1", version, "", list(items))
        self.source.replace(page, gone=expired())

    def tells(self, type: EventType, found: Item, version: int = 0) -> None:
        self.source.apply([Event(type, version or found.version, found)])

    def judges(self, *silent: str) -> None:
        found = Verdicts(frozenset({"n1", "n2", "n3"} - {*silent}), frozenset(silent))
        self.pool.heard(SourcesLine("", 6.0, verdicts=found), boottime())
        self.view.kick()

    @property
    def version(self) -> int:
        return self.view.stream.collection.cursor

    def ready(self, name: str) -> str:
        raw = self.view.stream.collection.objects["default", name].raw
        ready = (uid for uid, it in conditions(raw).items() if it["ready"])
        return " ".join(it.removeprefix(f"{name}-") for it in ready)

    def shows(self, name: str, ready: str) -> Callable[[], bool]:
        objects = self.view.stream.collection.objects
        return lambda: ("default", name) in objects and self.ready(name) == ready


def played(
    saved: Mapping[bytes, bytes] | None = None,
) -> Callable[[Callable[[Node], Awaitable[None]]], None]:
    """Plays the test beside a view that runs."""

    def play(test: Callable[[Node], Awaitable[None]]) -> None:
        async def work() -> None:
            node = Node(saved)
            running = asyncio.create_task(node.view.run())
            try:
                async with asyncio.timeout(30):
                    await test(node)
            finally:
                running.cancel()
                await asyncio.wait([running])
            assert running.cancelled(), running

        asyncio.run(work())

    return play


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_endpoint_view_it_knows_nothing_before_upstream_has_listed() -> None:
    async def work(node: Node) -> None:
        assert node.view.status().resource_version is None
        assert not await node.view.reached(node.source, within=0.02)
        node.lists(9, item("web", 7))
        assert await node.view.reached(node.source, within=5)
        # Nothing was kept of an earlier life: nobody may take its state for that.
        assert node.version == view_version(9, JUMP)
        assert node.view.stream.collection.objects["default", "web"].version == view_version(7)

    played()(work)


def test_endpoint_view_upstreams_events_and_its_own_changes_are_in_one_order() -> None:
    async def work(node: Node) -> None:
        node.lists(9, item("web", 7), item("other", 8))
        await until(node.shows("web", "n1 n2"))
        node.judges("n2")
        await until(node.shows("web", "n1"))
        assert node.version == view_version(9, JUMP + 2)
        node.tells(EventType.MODIFIED, item("web", 12, "n1", "n2", "n3"))
        await until(node.shows("web", "n1 n3"))
        assert node.version == view_version(12)
        node.tells(EventType.DELETED, item("other", 13))
        await until(lambda: node.version == view_version(13))
        node.source.apply([Event(EventType.BOOKMARK, 20)])
        await until(lambda: node.version == view_version(20))
        changes = node.view.stream.collection.since(view_version(9, JUMP))
        assert [(it.type, it.item.key[1]) for it in changes][2:] == [
            (EventType.MODIFIED, "web"),
            (EventType.DELETED, "other"),
        ]
        versions = [it.version for it in changes]
        assert versions == sorted(set(versions))
        bodies = [json.loads(it.item.raw)["metadata"]["resourceVersion"] for it in changes]
        assert bodies == [str(it) for it in versions]
        assert node.view.status().changes == 2

    played()(work)


def test_endpoint_view_a_list_of_upstream_ends_its_watches_and_overlays_stay() -> None:
    async def work(node: Node) -> None:
        node.lists(9, item("web", 7), item("gone", 8))
        node.judges("n2")
        await until(node.shows("web", "n1"))
        lists = node.view.stream.lists
        node.lists(30, item("web", 25, "n1", "n2", "n3"))
        await until(node.shows("web", "n1 n3"))
        assert node.view.stream.lists == lists + 1
        assert node.view.stream.collection.window_start == node.version == view_version(30)
        assert list(node.view.stream.collection.objects) == [("default", "web")]
        # The same once more: nothing new happened upstream.
        node.lists(30, item("web", 25, "n1", "n2", "n3"))
        await until(lambda: node.view.stream.lists == lists + 2)
        assert node.version == view_version(30, 1)

    played()(work)


def test_endpoint_view_what_upstream_forgets_or_refuses_is_known_no_more() -> None:
    async def work(node: Node) -> None:
        node.lists(9, item("web", 7))
        await until(node.shows("web", "n1 n2"))
        node.source.forget(gone=expired())
        await until(lambda: node.view.status().resource_version is None)
        # An older history: upstream was restored from a backup.
        node.lists(5, item("web", 4))
        await until(lambda: node.version == view_version(5, JUMP))
        node.streams.refused(node.source, Failure(403, "Forbidden", "no"))
        await until(lambda: node.view.status().resource_version is None)
        assert not node.view.stream.collection.objects

    played()(work)


def test_endpoint_view_at_the_last_version_it_is_as_upstream_until_that_moves() -> None:
    saved = {b"version": PersistedVersion(9, LAST - 3, is_overlaid=False).encode()}

    async def work(node: Node) -> None:
        node.lists(9, item("web", 7))
        await until(lambda: node.version == view_version(9, LAST - 3))
        node.judges("n2")
        await until(node.shows("web", "n1"))
        # Two seconds later at the earliest.
        node.judges()
        await until(node.shows("web", "n1 n2"))
        assert node.version == view_version(9, LAST - 1)
        node.judges("n2")
        await asyncio.sleep(2.2)
        assert node.ready("web") == "n1 n2"
        node.source.apply([Event(EventType.BOOKMARK, 10)])
        await until(node.shows("web", "n1"))
        assert node.version == view_version(10, 1)

    played(saved)(work)


def test_endpoint_view_it_begins_where_it_was_only_if_nothing_was_overlaid() -> None:
    for record, began in (
        (PersistedVersion(9, 5, is_overlaid=False), view_version(9, 5)),
        (PersistedVersion(9, 5, is_overlaid=True), view_version(9, 5 + JUMP)),
        (PersistedVersion(8, 5, is_overlaid=False), view_version(9)),
        (PersistedVersion(8, 5, is_overlaid=True), view_version(9, JUMP)),
    ):

        async def work(node: Node, began: int = began) -> None:
            node.lists(9, item("web", 7))
            await until(lambda: node.version == began)

        played({b"version": record.encode()})(work)
