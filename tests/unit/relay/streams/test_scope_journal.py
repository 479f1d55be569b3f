"""What is known of scopes beside their streams is there after a restart, and costs few writes."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from edge_sidecars.apimachinery.objects import Item, Page
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.store import fingerprint_of
from relay_sidecar.core.caching import NODE_SCOPES as NODE
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.streams.scope_journal import SPACE, ScopeJournal, restore
from relay_sidecar.streams.stream_journal import list_records
from relay_sidecar.streams.streams import Streams
from tests.unit.relay.streams.test_limits import made

PODS = ResourceName("", "v1", "pods")
ALL = ListScope(PODS)
OF_NODE = ListScope(PODS, fields=FieldSelector.parse("spec.nodeName=n1"))
OF_NAMESPACE = ListScope(PODS, "n")
MINE = Item(("n", "a"), 5, b'{"metadata":{"name":"a","namespace":"n"},"spec":{"nodeName":"n1"}}')
HERE = Page("PodList", "v1", 1600, "", [MINE])


class Counting(Journal):
    """Counts what is sent."""

    def __init__(self) -> None:
        super().__init__(None)
        self.sent: list[Blob] = []

    def send(self, *records: object) -> None:
        self.sent += [it for it in records if isinstance(it, Blob)]


def wide() -> Streams:
    streams = made()
    streams.open(ALL, now=0.0).replace(HERE, gone=expired())
    return streams


def version_of(streams: Streams, scope: ListScope) -> int:
    [stream] = streams.covering(scope)
    collection = stream.collection
    return streams.minimum.states.version(
        scope,
        stream.version,
        whole=collection.fingerprint,
        part=lambda: stream.fingerprint_of(scope),
    )


async def restarted(directory: Path) -> tuple[Streams, Mapping[str, Mapping[bytes, bytes]]]:
    journal = await Journal.open(directory)
    try:
        saved, streams = await journal.load(), made()
        restore(streams, saved, now=0.0, wall=0.0)
        ScopeJournal(streams, journal, saved.kept)
        return streams, saved.kept
    finally:
        await journal.close()


def test_r_monotonic_a_list_that_a_wider_stream_serves_has_its_version_after_a_restart(
    tmp_path: Path,
) -> None:
    async def first() -> None:
        journal = await Journal.open(tmp_path)
        await journal.load()
        streams = wide()
        [stream] = streams.covering(ALL)
        await journal.commit(*list_records(stream, HERE, at=1.0))
        scopes = ScopeJournal(streams, journal, {})
        states = streams.minimum.states
        for version in range(1601, 1604):
            states.listed(OF_NAMESPACE, version, fingerprint_of([MINE]))
            states.listed(OF_NODE, version, fingerprint_of([MINE]))
            await asyncio.sleep(0)
        # Of a part that the stream does not hold like this.
        states.listed(ListScope(PODS, "other"), 1700, 12345)
        streams.of_node.add(OF_NODE)
        scopes.link(False)
        await journal.commit()
        await journal.close()

    asyncio.run(first())
    streams, _ = asyncio.run(restarted(tmp_path))
    assert version_of(streams, OF_NAMESPACE) == version_of(streams, OF_NODE) == 1603
    assert version_of(streams, ListScope(PODS, "other")) == 1600
    assert version_of(streams, ALL) == 1600
    assert list(streams.of_node) == [OF_NODE]


def test_what_a_stream_says_itself_and_what_is_of_a_lost_history_leaves_the_disk(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        journal = await Journal.open(tmp_path)
        await journal.load()
        streams = wide()
        scopes = ScopeJournal(streams, journal, {})
        states = streams.minimum.states
        states.listed(OF_NAMESPACE, 1603, 1)
        states.listed(OF_NODE, 1603, 1)
        scopes.link(False)
        states.went_back(PODS.storage, 1500)
        scopes.link(False)
        # At the version of the stream that answers.
        states.listed(ALL, 1600, fingerprint_of([MINE]))
        scopes.link(False)
        await journal.commit()
        await journal.close()

    asyncio.run(play())
    _, kept = asyncio.run(restarted(tmp_path))
    assert kept.get(SPACE, {}) == {}


def test_clients_that_list_again_and_again_cost_one_write_and_then_one_a_second() -> None:
    async def play() -> list[Blob]:
        streams, journal = wide(), Counting()
        ScopeJournal(streams, journal, {})
        for version in range(1601, 2601):
            streams.minimum.states.listed(OF_NAMESPACE, version, 1)
            await asyncio.sleep(0)
        streams.of_node.add(OF_NODE)
        streams.of_node.add(OF_NODE)
        return journal.sent

    sent = asyncio.run(play())
    assert len([it for it in sent if it.space == SPACE]) == 1
    assert len([it for it in sent if it.space == NODE]) == 1
