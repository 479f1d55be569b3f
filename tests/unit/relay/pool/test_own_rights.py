"""Whether the relay's own credential may read what a hub offers; the reviews are made up."""

import asyncio
import math
from pathlib import Path

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.store import Collection
from edge_sidecars.kubeapi import Unreachable
from relay_sidecar.core.access.authorizer import Attributes
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.pool.hub_trust import SPACE, OwnRights
from relay_sidecar.streams.stream import Stream
from relay_sidecar.telemetry.metrics import RelayCounters
from tests.unit.relay.journal.journal_history import play


class Answers:
    """`verbs`: what is allowed; None: nobody answers."""

    def __init__(self) -> None:
        self.verbs: tuple[str, ...] | None = ("list", "watch")
        self.asked: list[Attributes] = []

    async def may(self, token: str | None, attributes: Attributes) -> tuple[bool, str]:
        assert token is None, "it is about the relay itself"
        self.asked.append(attributes)
        if self.verbs is None:
            raise Unreachable("nobody answers")
        return attributes.verb in self.verbs, ""


class Link(UpstreamLink):
    def __init__(self) -> None:
        super().__init__(probe_interval=1.0, probe_timeout=1.0)
        self.is_cut = False

    def is_up(self, now: float) -> bool:
        return not self.is_cut


def stream(namespace: str = "") -> Stream:
    scope = ListScope(ResourceName("", "v1", "services"), namespace)
    collection = Collection(window_bytes=1, window_events=1)
    return Stream(scope, collection, RelayCounters(), now=0.0)


def known(reviews: Answers, link: Link, *, ttl: float) -> OwnRights:
    return OwnRights(reviews.may, link, Journal(None), {}, ttl=ttl)


def asked(rights: OwnRights, of: Stream) -> bool:
    return asyncio.run(rights.may_read(of))


def test_both_verbs_are_asked_for_at_the_scope_of_the_stream() -> None:
    reviews = Answers()
    assert asked(known(reviews, Link(), ttl=60.0), stream("shop"))
    told = [(it.verb, it.resource, it.namespace) for it in reviews.asked]
    assert told == [("list", "services", "shop"), ("watch", "services", "shop")]


def test_who_may_only_list_may_not_read() -> None:
    reviews = Answers()
    reviews.verbs = ("list",)
    assert not asked(known(reviews, Link(), ttl=60.0), stream())


def test_an_answer_counts_for_its_time() -> None:
    reviews = Answers()
    rights = known(reviews, Link(), ttl=math.inf)
    assert asked(rights, stream())
    reviews.verbs = ()
    assert asked(rights, stream())
    assert not asked(rights, stream("shop")), "of another scope nothing is known"
    assert not asked(known(reviews, Link(), ttl=0.0), stream())


def test_while_cut_the_last_answer_counts_and_without_one_nothing_may_be_read() -> None:
    reviews, link = Answers(), Link()
    rights = known(reviews, link, ttl=0.0)
    assert asked(rights, stream())
    link.is_cut = True
    reviews.asked.clear()
    assert asked(rights, stream())
    assert not asked(rights, stream("shop"))
    assert reviews.asked == []


def test_where_nobody_answers_the_last_answer_counts() -> None:
    reviews = Answers()
    rights = known(reviews, Link(), ttl=0.0)
    reviews.verbs = None
    assert not asked(rights, stream())
    reviews.verbs = ("list", "watch")
    assert asked(rights, stream())
    reviews.verbs = None
    assert asked(rights, stream())


def test_a_refusal_takes_the_place_of_a_former_answer() -> None:
    reviews = Answers()
    rights = known(reviews, Link(), ttl=0.0)
    assert asked(rights, stream())
    reviews.verbs = ()
    assert not asked(rights, stream())


def test_what_was_allowed_counts_after_a_restart_while_cut(tmp_path: Path) -> None:
    reviews, link, found = Answers(), Link(), list[bool]()

    async def live(journal: Journal, saved: Saved) -> None:
        rights = OwnRights(reviews.may, link, journal, saved.kept.get(SPACE, {}), ttl=0.0)
        found.append(await rights.may_read(stream()))

    play(tmp_path, live)
    link.is_cut = True
    play(tmp_path, live)
    link.is_cut, reviews.verbs = False, ("list",)
    play(tmp_path, live)
    link.is_cut = True
    play(tmp_path, live)
    assert found == [True, True, False, False]
