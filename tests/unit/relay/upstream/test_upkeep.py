"""What a relay asks upstream by itself, and how often."""

import asyncio
from collections.abc import Mapping

import pytest

from edge_sidecars.kubeapi import Unreachable
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.streams import Limits
from relay_sidecar.upstream.documents.documents import DocumentCache
from relay_sidecar.upstream.documents.upkeep import DocumentRefresh, DocumentSource, FetchedDocument
from tests.unit.relay.streams.movers import still_streams

LIMITS = Limits(1000, 100, 1 << 20, 100, 600.0, 9e9, 5.0)


class Silent(DocumentSource):
    """Counts what it is asked for, and has no answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fetch(self, path: str, headers: Mapping[str, str]) -> FetchedDocument:
        self.asked.append(path)
        raise Unreachable("nobody is there")


@pytest.mark.parametrize(("interval", "often"), [(0.01, True), (60.0, False)])
def test_discovery_is_asked_for_once_per_interval(interval: float, often: bool) -> None:
    async def play() -> int:
        source = Silent()
        streams = still_streams(LIMITS)
        documents = DocumentCache(Journal(None), {})
        refresh = DocumentRefresh(documents, source, streams, interval=interval)
        refresh.link(True)
        running = asyncio.create_task(refresh.run())
        await asyncio.wait([running], timeout=1.0)
        running.cancel()
        return len(source.asked)

    asked = asyncio.run(play())
    assert asked > 1 if often else asked == 1
