"""What a hub told, beside what the API server says; both are made up."""

import asyncio
import json
from collections.abc import Callable, Mapping

import pytest

from edge_sidecars.apimachinery.objects import Page, read_item, read_page
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.pool import hub_trust
from relay_sidecar.pool.hub_trust import SHUNNED_FOR, SpotCheck
from relay_sidecar.pool.sources import PeerStreams, PoolSources, SourcesLine
from relay_sidecar.streams.streams import Limits
from relay_sidecar.upstream.reflector.source import UpstreamSource
from tests.unit.relay.streams.movers import Still, still_streams
from tests.unit.relay.streams.samples import pod
from tests.unit.relay.upstream.test_reflector import pods

PODS = ListScope(ResourceName("", "v1", "pods"))
HUB = "n2"
ABSENT = ApiError(404, "NotFound", "there is none")
TRUE = pod("a", 5)


class Fed(Still):
    """Of a stream that is live, and fed by `source`."""

    source = HUB

    def __init__(self) -> None:
        self.lists = 0

    def relist(self, *, is_paced: bool) -> None:
        self.lists += 1


class ApiServer(UpstreamSource):
    """`answers` to one GET after another, the last one again and again."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def page(self, path: str, params: Mapping[str, str], **_: object) -> bytearray:
        self.asked.append(path)
        self.meanwhile()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return bytearray(answer)


class Scene:
    """A stream of one pod that the hub told."""

    def __init__(self, *answers: bytes | Exception, told: bytes = TRUE) -> None:
        self.fed, self.api = Fed(), ApiServer(*answers)
        limits = Limits(1000, 100, 1 << 20, 100, 600.0, 9e9, 5.0)
        self.streams = still_streams(limits)
        page = read_page(pods(10, told))
        self.streams.restore(PODS, page, equal_at=0, confirmed_at=1.0, now=0.0)
        (self.stream,) = self.streams
        self.stream.start(self.fed)
        self.sources = PoolSources()
        resource = str(PODS.resource)
        peer = PeerStreams({resource: 10}, live=frozenset({resource}))
        self.sources.heard(SourcesLine("", 6.0, HUB, peers={HUB: peer}), boottime())
        self.has_own_link = True
        self.check = SpotCheck(
            self.streams, self.sources, self.api, is_own_link_up=lambda: self.has_own_link
        )

    def checked(self) -> bool:
        """Whether the hub is believed after that."""
        asyncio.run(self.check.check())
        is_believed = HUB in self.sources.hubs(str(PODS.resource), boottime())
        assert self.streams.counters.lying_hubs == (not is_believed)
        assert self.fed.lists == (not is_believed)
        return is_believed


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_trust, "UNSEEN_FOR", 0.0)


def test_the_object_is_asked_for_by_its_name() -> None:
    scene = Scene(TRUE)
    assert scene.checked()
    namespace, name = read_item(TRUE).key
    assert scene.api.asked == [f"/api/v1/namespaces/{namespace}/pods/{name}"]


def test_the_same_in_another_order_of_fields_is_no_lie() -> None:
    turned = b'{"metadata":' + TRUE.split(b'"metadata":', 1)[1].removesuffix(b"}")
    turned += b',"apiVersion":"v1","kind":"Pod"}'
    assert read_item(turned).version == 5
    assert Scene(turned).checked()


def test_other_bytes_at_the_same_version_are_a_lie() -> None:
    lie = TRUE.removesuffix(b"}") + b',"spec":{"nodeName":"mine"}}'
    scene = Scene(TRUE, told=lie)
    assert not scene.checked()
    later = boottime() + SHUNNED_FOR + 1
    scene.sources.heard(scene.sources._line, later)
    assert HUB in scene.sources.hubs(str(PODS.resource), later), "an hour is enough"


def test_one_that_nests_deeper_than_can_be_read_is_a_lie_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_deep(_: bytes) -> object:
        raise RecursionError

    monkeypatch.setattr(json, "loads", too_deep)
    assert Scene(TRUE).checked()
    assert not Scene(TRUE, told=TRUE.removesuffix(b"}") + b',"spec":{}}').checked()


def test_an_object_that_there_is_not_is_a_lie_while_it_is_still_shown() -> None:
    assert not Scene(ABSENT).checked()
    assert Scene(ABSENT, TRUE).checked(), "it has come meanwhile"
    gone = Scene(ABSENT)
    gone.api.meanwhile = lambda: gone.stream.replace(
        Page("PodList", "v1", 11, "", []), gone=expired()
    )
    assert gone.checked(), "it is not shown any more"


def test_a_change_that_is_still_not_shown_is_withheld() -> None:
    assert not Scene(pod("a", 8)).checked()
    assert Scene(pod("a", 4)).checked(), "an API server that is behind proves nothing"


@pytest.mark.parametrize(
    "answer", [ApiError(403, "Forbidden", "no get"), Unreachable("it is cut"), b"{", b"{}"]
)
def test_what_is_no_answer_proves_nothing(answer: bytes | Exception) -> None:
    assert Scene(answer).checked()


def test_nothing_is_asked_over_a_neighbour_or_of_what_no_hub_feeds() -> None:
    lent = Scene(ABSENT)
    lent.has_own_link = False
    own = Scene(ABSENT)
    own.fed.source = "cloud"
    assert lent.checked()
    assert own.checked()
    assert lent.api.asked == own.api.asked == []
