"""A list is proved of the very stream that is shown, and of what it holds when it is shown."""

import asyncio
from collections.abc import Callable

import pytest

from edge_sidecars.apimachinery.objects import Page, read_event
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.status import expired
from relay_sidecar.streams.stream import Stream
from relay_sidecar.web.reads.lists import ListProof, ListProofs
from tests.unit.relay.streams.samples import encoded, item, pod
from tests.unit.relay.web.test_reads import PODS, World

NAMESPACE = ListScope(PODS, "default")
ALL = ListScope(PODS)


class Source:
    """Answers each question when it is let, with the pods that there are at that version."""

    def __init__(self) -> None:
        self.gates: list[asyncio.Future[bytearray | None]] = []

    async def metadata(self, scope: ListScope, *, header_timeout: float) -> bytearray | None:
        gate = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        found: bytearray | None = await gate
        return found

    def answer(self, version: int, *pods: bytes) -> None:
        body = (
            b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}'
        )
        self.gates[-1].set_result(bytearray(body % (version, b",".join(pods))))


class Site:
    def __init__(self) -> None:
        self.world = World()
        self.source = Source()
        self.proofs = ListProofs(self.world.freshness, self.source)

    def hold(self, scope: ListScope, version: int) -> Stream:
        streams = self.world.streams
        stream = streams.exactly(scope) or streams._made(scope, now=0.0)
        streams.use(stream, now=0.0)
        stream.replace(Page("PodList", "v1", version, "", [item("a", 90)]), gone=expired())
        return stream

    def reader(self, stream: Stream) -> asyncio.Task[ListProof | None]:
        return asyncio.create_task(self.proofs.prove(stream, NAMESPACE))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def added(name: str, version: int) -> bytes:
    return encoded({"type": "ADDED", "object": {}}).replace(b"{}", pod(name, version))


def test_readers_that_share_a_question_show_the_stream_that_it_was_about() -> None:
    """The stream of which the second reader thought is older than what was proved."""

    async def scene() -> None:
        site = Site()
        newer, older = site.hold(ALL, 120), site.hold(NAMESPACE, 100)
        first = site.reader(older)
        await settle()
        second, third = site.reader(newer), site.reader(older)
        await settle()
        site.source.answer(100, pod("a", 90))
        await first
        await settle()
        site.source.answer(120, pod("a", 90))
        for each in (second, third):
            proof = await each
            assert proof is not None
            assert proof.stream is newer
            assert proof.version == 120

    asyncio.run(scene())


def _unreadable(stream: Stream) -> None:
    stream.missed += 1


def _emptied(stream: Stream) -> None:
    stream.forget(gone=expired())


def _listed_anew(stream: Stream) -> None:
    """Of a history that begins before what was proved."""
    stream.forget(gone=expired())
    stream.replace(Page("PodList", "v1", 50, "", [item("b", 40)]), gone=expired())


def _dropped(stream: Stream) -> None:
    stream.is_dropped = True


@pytest.mark.parametrize("happens", [_unreadable, _emptied, _listed_anew, _dropped])
@pytest.mark.parametrize("moment", ["asked", "proved"])
def test_what_becomes_of_the_stream_meanwhile_ends_its_proof(
    happens: Callable[[Stream], None], moment: str
) -> None:
    """While upstream is asked, and between its answer and that of the reader."""

    async def scene() -> None:
        site = Site()
        stream = site.hold(NAMESPACE, 100)
        reader = site.reader(stream)
        await settle()
        if moment == "asked":
            happens(stream)
        site.source.answer(100, pod("a", 90))
        proof = await reader
        if moment == "proved":
            assert proof is not None
            assert proof.version == 100
            happens(stream)
        assert proof is None or proof.version is None

    asyncio.run(scene())


def test_a_stream_that_has_moved_on_is_shown_at_its_own_version() -> None:
    async def scene() -> None:
        site = Site()
        stream = site.hold(NAMESPACE, 100)
        reader = site.reader(stream)
        await settle()
        site.source.answer(100, pod("a", 90))
        proof = await reader
        stream.apply([read_event(added("b", 105))])
        assert proof is not None
        assert proof.version == 105

    asyncio.run(scene())


@pytest.mark.parametrize("listed", [[pod("a", 91)], [pod("a", 90), pod("b", 95)], []])
def test_what_differs_is_no_proof(listed: list[bytes]) -> None:
    async def scene() -> None:
        site = Site()
        reader = site.reader(site.hold(NAMESPACE, 100))
        await settle()
        site.source.answer(110, *listed)
        assert await reader is None

    asyncio.run(scene())
