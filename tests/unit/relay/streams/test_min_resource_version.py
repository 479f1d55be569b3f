"""How new an answer must be: nobody goes backwards in time, whoever told whom what before."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from edge_sidecars.apimachinery.objects import Item, read_event, read_page
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.store import Collection, fingerprint_of
from relay_sidecar.core.min_resource_version import (
    MAX_CHANGES,
    MAX_DELETED,
    MAX_NAMESPACES,
    MinResourceVersion,
)
from tests.examples import play
from tests.unit.relay.streams.samples import bookmark, event, item
from tests.unit.relay.streams.upstream import NAMES, NAMESPACE, Selector, Upstream, puts, writes

PODS = ResourceName("", "v1", "pods")
NODES = ResourceName("", "v1", "nodes")
ALL = ListScope(PODS)
WEB = ListScope(PODS, labels=LabelSelector.parse("app=web"))
KEY = ("default", "a")


def named(namespace: str, name: str) -> ListScope:
    return ListScope(PODS, namespace, fields=FieldSelector.parse(f"metadata.name={name}"))


def collection(*items: Item, cursor: int) -> Collection:
    made = Collection(window_bytes=1 << 20, window_events=100)
    made.replace(items, cursor, kind="Pod", api_version="v1")
    return made


def test_where_nothing_was_handed_out_anything_is_new_enough() -> None:
    assert MinResourceVersion().is_reached(ALL, collection(cursor=1))
    assert MinResourceVersion().of(PODS) == 0


def test_an_answer_is_not_older_than_what_was_handed_out() -> None:
    floor = MinResourceVersion()
    floor.raise_to(PODS, 20)

    assert not floor.is_reached(ALL, collection(cursor=19))
    assert floor.is_reached(ALL, collection(cursor=20))
    assert floor.is_reached(ALL, collection(cursor=21))


def test_what_is_handed_out_while_an_answer_is_made_is_beside_it() -> None:
    floor = MinResourceVersion()
    floor.raise_to(PODS, 20)
    asked_at = floor.of(PODS)
    floor.raise_to(PODS, 30)

    assert floor.is_reached(ALL, collection(cursor=20), at=asked_at)
    assert not floor.is_reached(ALL, collection(cursor=19), at=asked_at)
    assert not floor.is_reached(ALL, collection(cursor=20))


def test_the_floor_is_never_lowered() -> None:
    floor = MinResourceVersion()
    floor.raise_to(PODS, 20)
    floor.raise_to(PODS, 10)
    floor.listed(ALL, 15, 0)

    assert floor.of(PODS) == 20
    assert not floor.is_reached(ALL, collection(cursor=19))


def test_resources_have_floors_of_their_own() -> None:
    floor = MinResourceVersion()
    floor.raise_to(PODS, 20)

    assert floor.of(NODES) == 0
    assert floor.is_reached(ListScope(NODES), collection(cursor=10))


def test_a_quiet_stream_that_holds_what_was_listed_is_as_new_as_the_list() -> None:
    floor, known = MinResourceVersion(), [item("a", 5), item("b", 6)]
    floor.listed(ALL, 100, fingerprint_of(known))

    assert floor.of(PODS) == 100
    assert floor.is_reached(ALL, collection(*known, cursor=10))
    assert not floor.is_reached(ALL, collection(known[0], cursor=10))
    assert floor.is_reached(ALL, collection(known[0], cursor=100))


def test_a_stream_may_come_to_hold_what_was_listed() -> None:
    floor, kept = MinResourceVersion(), collection(item("a", 5), cursor=10)
    floor.listed(ALL, 100, fingerprint_of([item("a", 5), item("b", 50)]))
    assert not floor.is_reached(ALL, kept)
    kept.apply(event("ADDED", "b", 50))

    assert floor.is_reached(ALL, kept)


def test_a_stream_that_has_yet_to_pass_through_another_state_is_not_as_new() -> None:
    """Until the list, something came and went."""
    floor, kept = MinResourceVersion(), collection(item("a", 5), cursor=10)
    floor.listed(ALL, 100, fingerprint_of([item("a", 5)]))
    kept.apply(event("ADDED", "b", 50))
    assert not floor.is_reached(ALL, kept)
    kept.apply(event("DELETED", "b", 60))

    assert floor.is_reached(ALL, kept)


def test_a_list_proves_nothing_about_what_came_after_it() -> None:
    floor, known = MinResourceVersion(), [item("a", 5)]
    floor.listed(ALL, 100, fingerprint_of(known))
    floor.raise_to(PODS, 101)

    assert not floor.is_reached(ALL, collection(*known, cursor=10))


def test_a_list_of_less_proves_nothing_about_more() -> None:
    floor, known = MinResourceVersion(), [item("a", 5, labels={"app": "web"})]
    floor.listed(WEB, 100, fingerprint_of(known))

    assert floor.is_reached(WEB, collection(*known, cursor=10))
    assert not floor.is_reached(ALL, collection(*known, cursor=10))


def test_what_was_deleted_through_the_relay_must_be_gone() -> None:
    floor, kept = MinResourceVersion(), collection(item("a", 5, uid="first"), cursor=100)
    floor.deleted(PODS, KEY, "first")
    assert not floor.is_reached(ALL, kept)
    kept.apply(bookmark(200))
    assert not floor.is_reached(ALL, kept)
    kept.apply(event("DELETED", "a", 201))

    assert floor.is_reached(ALL, kept)


def test_what_was_made_anew_under_the_same_name_is_another_object() -> None:
    floor = MinResourceVersion()
    floor.deleted(PODS, KEY, "first")

    assert floor.is_reached(ALL, collection(item("a", 9, uid="second"), cursor=10))
    floor.deleted(PODS, KEY, "second")
    assert not floor.is_reached(ALL, collection(item("a", 9, uid="second"), cursor=10))


def test_each_of_several_objects_that_had_one_name_must_be_gone() -> None:
    floor = MinResourceVersion()
    floor.deleted(PODS, KEY, "first")
    floor.deleted(PODS, KEY, "second")

    assert not floor.is_reached(ALL, collection(item("a", 5, uid="first"), cursor=10))
    assert not floor.is_reached(ALL, collection(item("a", 9, uid="second"), cursor=10))


def test_the_memory_of_deletions_is_bounded_and_drops_the_oldest() -> None:
    floor = MinResourceVersion()
    for number in range(MAX_DELETED + 1):
        floor.deleted(PODS, ("default", f"pod-{number}"), "uid")

    assert floor.is_reached(ALL, collection(item("pod-0", 5, uid="uid"), cursor=10))
    assert not floor.is_reached(ALL, collection(item("pod-1", 5, uid="uid"), cursor=10))


@pytest.mark.parametrize(
    ("group", "plural", "versions"),
    [
        ("autoscaling", "horizontalpodautoscalers", ("v1", "v2")),
        ("example.com", "widgets", ("v1beta1", "v1")),
    ],
)
def test_api_versions_of_a_resource_share_a_floor(
    group: str, plural: str, versions: tuple[str, str]
) -> None:
    floor, (one, other) = MinResourceVersion(), versions
    floor.raise_to(ResourceName(group, one, plural), 20)
    floor.deleted(ResourceName(group, one, plural), KEY, "first")
    scope = ListScope(ResourceName(group, other, plural))

    assert not floor.is_reached(scope, collection(cursor=19))
    assert not floor.is_reached(scope, collection(item("a", 5, uid="first"), cursor=30))
    assert floor.is_reached(scope, collection(cursor=20))


def test_events_of_both_groups_share_a_floor() -> None:
    floor = MinResourceVersion()
    floor.raise_to(ResourceName("events.k8s.io", "v1", "events"), 20)

    assert floor.of(ResourceName("", "v1", "events")) == 20


@pytest.mark.parametrize("version", [None, 150])
def test_what_a_write_has_changed_must_have_been_asked_for_since(version: int | None) -> None:
    """Or, where the answer told a version, be at it."""
    floor, kept = MinResourceVersion(), collection(item("a", 5), cursor=100)
    floor.changed(PODS, KEY, 10.0, version)

    for scope in (ALL, ListScope(PODS, "default"), named("default", "a")):
        assert not floor.is_reached(scope, kept, asked_at=9.0)
        assert floor.is_reached(scope, kept, asked_at=10.0)
        assert floor.is_reached(scope, kept, equal_at=150) is (version == 150)
    for scope in (ListScope(PODS, "elsewhere"), named("default", "b"), named("elsewhere", "a")):
        assert floor.is_reached(scope, kept)


def test_a_change_counts_until_the_objects_newest_state_was_seen() -> None:
    floor, kept = MinResourceVersion(), collection(item("a", 5), cursor=100)
    floor.changed(PODS, KEY, 10.0, None)
    floor.seen(PODS, KEY, 120, asked_at=9.0)
    assert not floor.is_reached(ALL, kept)
    assert floor.has_changed(PODS, KEY, since=0.0)
    floor.seen(PODS, KEY, 120, asked_at=11.0)

    assert floor.is_reached(ALL, kept)
    assert not floor.has_changed(PODS, KEY, since=0.0)


@pytest.mark.parametrize("namespaces", [1, 2 * MAX_NAMESPACES])
def test_the_memory_of_changes_is_bounded_and_forgets_none(namespaces: int) -> None:
    """What there is no room for counts for all of its namespace, or for all."""
    floor = MinResourceVersion()
    for number in range(2 * MAX_CHANGES):
        floor.changed(PODS, (f"n{number % namespaces}", f"pod-{number}"), float(number), None)

    for number in (0, MAX_CHANGES, 2 * MAX_CHANGES - 1):
        scope = named(f"n{number % namespaces}", f"pod-{number}")
        assert not floor.is_reached(scope, collection(cursor=1), asked_at=number - 0.5)
    assert floor.is_reached(ALL, collection(cursor=1), asked_at=2.0 * MAX_CHANGES)


# ── drawn histories ──


SELECTORS = [
    Selector(),
    Selector(app="web"),
    Selector(app="web", tier="front"),
    Selector(tier="front"),
    Selector(name="a"),
]


def scope_of(selector: Selector) -> ListScope:
    labels = {"app": selector.app, "tier": selector.tier}
    asked = ",".join(f"{key}={value}" for key, value in labels.items() if value)
    fields = f"metadata.name={selector.name}" if selector.name else ""
    return ListScope(PODS, NAMESPACE, LabelSelector.parse(asked), FieldSelector.parse(fields))


class ListEvidence(RuleBasedStateMachine):
    """Streams that lag behind upstream, each at its own pace, and answers from everywhere."""

    @initialize(before=st.lists(puts(), max_size=6))
    def begin(self, before: list[tuple[str, ...]]) -> None:
        self.upstream = Upstream()
        self.upstream.perform(before)
        self.floor = MinResourceVersion()
        self.gone: set[str] = set()
        self.streams: dict[Selector, Collection] = {}
        for selector in SELECTORS:
            page = read_page(self.upstream.page(selector, "", 0))
            self.streams[selector] = collection(*page.items, cursor=page.version)

    # ── upstream moves, streams follow ──

    @rule(writes=st.lists(writes(), min_size=1, max_size=3))
    def write(self, writes: list[tuple[str, ...]]) -> None:
        self.upstream.perform(writes)

    @rule()
    def tick(self) -> None:
        self.upstream.tick()

    @rule(selector=st.sampled_from(SELECTORS), revisions=st.integers(1, 3))
    def follow(self, selector: Selector, revisions: int) -> None:
        kept = self.streams[selector]
        lines = self.upstream.lines(selector, kept.cursor)
        ends = sorted({revision for revision, _ in lines})[:revisions]
        for line in [line for revision, line in lines if revision in ends]:
            kept.apply(read_event(line))

    @rule(selector=st.sampled_from(SELECTORS))
    def catch_up(self, selector: Selector) -> None:
        self.follow(selector, 1000)
        self.streams[selector].apply(read_event(self.upstream.bookmark()))
        for asked in SELECTORS:
            if selector.covers(asked):
                assert self.floor.is_reached(scope_of(asked), self.streams[selector])

    # ── what is handed out ──

    @rule(selector=st.sampled_from(SELECTORS), ago=st.integers(0, 2))
    def list_upstream(self, selector: Selector, ago: int) -> None:
        """Its answer may have been a while on the way."""
        version = max(self.upstream.revision - ago, 1)
        state = self.upstream.state(selector, version)
        items = collection(*map(_item, state.values()), cursor=version).objects.values()
        self.floor.listed(scope_of(selector), version, fingerprint_of(items))

    @rule(selector=st.sampled_from(SELECTORS))
    def list_upstream_and_here(self, selector: Selector) -> None:
        """A stream that has all events need not wait for a bookmark."""
        self.list_upstream(selector, 0)
        self.follow(selector, 1000)
        assert self.floor.is_reached(scope_of(selector), self.streams[selector])

    @rule(selector=st.sampled_from(SELECTORS))
    def hand_out_of_stream(self, selector: Selector) -> None:
        self.floor.raise_to(PODS, self.streams[selector].cursor)

    @rule(put=puts())
    def write_through_relay(self, put: tuple[str, ...]) -> None:
        self.upstream.perform([put])
        self.floor.raise_to(PODS, self.upstream.revision)

    @rule(name=NAMES)
    def delete_through_relay(self, name: str) -> None:
        for thing in self.upstream.delete(name):
            self.floor.deleted(PODS, thing.key, thing.uid)
            self.gone.add(thing.uid)

    # ── what must hold ──

    @invariant()
    def whoever_is_answered_does_not_go_backwards(self) -> None:
        floor = self.floor.of(PODS)
        for selector, kept in self.streams.items():
            for asked in SELECTORS:
                if not selector.covers(asked):
                    continue
                if self.floor.is_reached(scope_of(asked), kept):
                    self._check_answer(asked, kept, floor)

    def _check_answer(self, asked: Selector, kept: Collection, floor: int) -> None:
        shown = {key: i.raw for key, i in kept.objects.items() if asked.matches(i)}
        versions = range(floor, self.upstream.revision + 1)
        assert any(shown == self.upstream.state(asked, version) for version in versions)
        assert not any(uid.encode() in raw for uid in self.gone for raw in shown.values())


def _item(raw: bytes) -> Item:
    found = read_event(b'{"type":"ADDED","object":%s}' % raw).item
    assert found is not None
    return found


def test_what_has_reached_the_floor_shows_what_was_true_there_or_later() -> None:
    run_state_machine_as_test(ListEvidence, settings=play(150, steps=40))
