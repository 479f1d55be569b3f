"""Whatever happens to a stream, its watchers see their part of it, in order and each step once."""

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from edge_sidecars.apimachinery.objects import read_event, read_page
from edge_sidecars.apimachinery.store import Collection, fingerprint_of
from tests.examples import play
from tests.unit.relay.streams.informer import Informer
from tests.unit.relay.streams.upstream import Gone, Selector, Upstream, writes

WRITES = st.lists(writes(), min_size=1, max_size=6)
WIDE = [Selector(), Selector(app="web"), Selector(tier="front")]
NARROW = [*WIDE, Selector(app="db"), Selector(app="web", tier="front"), Selector(name="a")]
WINDOW_EVENTS = 4


class Watchers(RuleBasedStateMachine):
    """One stream out of an upstream, and informers that come, go and start anywhere."""

    @initialize(selector=st.sampled_from(WIDE), roomy=st.booleans())
    def begin(self, selector: Selector, roomy: bool) -> None:
        self.upstream = Upstream()
        self.selector = selector
        self.window_bytes = 1 << 20 if roomy else 4000
        self.informers: list[Informer] = []
        self.collection = self._empty()
        self.relist()

    # ── upstream ──

    @rule(writes=WRITES)
    def write(self, writes: list[tuple[str, ...]]) -> None:
        self.upstream.perform(writes)

    @rule(writes=WRITES)
    def write_and_tell(self, writes: list[tuple[str, ...]]) -> None:
        self.upstream.perform(writes)
        self.move(100, 0)

    @rule(what=st.sampled_from(["tick", "tick", "compact", "relist", "restart"]))
    def shake(self, what: str) -> None:
        match what:
            case "tick":
                self.upstream.tick()
            case "compact":
                self.upstream.compact()
            case "relist":
                self.relist()
            case "restart":
                self.restart()

    # ── the stream ──

    @rule(revisions=st.integers(1, 4), again=st.integers(0, 8))
    def move(self, revisions: int, again: int) -> None:
        """Some events arrive; after a cut also some that have come before."""
        start = max(self.collection.cursor - again, 0)
        try:
            lines = self.upstream.lines(self.selector, start)
        except Gone:
            if again == 0:
                self.relist()
            return
        new = sorted({revision for revision, _ in lines if revision > self.collection.cursor})
        end = new[:revisions][-1] if new else self.collection.cursor
        for line in [line for revision, line in lines if revision <= end]:
            self._apply(line)

    @rule()
    def catch_up(self) -> None:
        """All events arrive, and the bookmark that confirms it."""
        self.move(100, 0)
        self._apply(self.upstream.bookmark())
        for informer in self._watching():
            informer.bookmark(self.collection.cursor)

    def relist(self) -> None:
        page = read_page(self.upstream.page(self.selector, "", 0))
        self.collection.replace(page.items, page.version, kind="Pod", api_version="v1")
        for informer in self._watching():
            informer.list(self.collection)

    def restart(self) -> None:
        """Objects and cursor were kept, the window was not."""
        kept = self.collection
        self.collection = self._empty()
        self.collection.replace(
            list(kept.objects.values()), kept.cursor, kind="Pod", api_version="v1"
        )
        for informer in self._watching():
            informer.is_watching = False

    # ── informers ──

    @rule(selector=st.sampled_from(NARROW))
    def join_by_list(self, selector: Selector) -> None:
        if self.selector.covers(selector):
            informer = Informer(selector)
            informer.list(self.collection)
            self.informers.append(informer)

    @rule(selector=st.sampled_from(NARROW), from_window=st.booleans(), distance=st.integers(-2, 4))
    def join_at_any_version(self, selector: Selector, from_window: bool, distance: int) -> None:
        """With the state that another server gave for that version."""
        if not self.selector.covers(selector):
            return
        collection = self.collection
        near = collection.window_start if from_window else collection.cursor - 2
        version = min(max(near + distance, 0), self.upstream.revision)
        informer = Informer(selector, version, self.upstream.state(selector, version))
        self.informers.append(informer)
        self._come_back(informer)

    @rule(which=st.integers(0, 20))
    def leave(self, which: int) -> None:
        if self.informers:
            self.informers[which % len(self.informers)].is_watching = False

    @rule(which=st.integers(0, 20))
    def come_back(self, which: int) -> None:
        if not self.informers:
            return
        informer = self.informers[which % len(self.informers)]
        if not informer.is_watching:
            self._come_back(informer)

    def _come_back(self, informer: Informer) -> None:
        # A watch from a version that the stream has yet to reach is silent until then.
        if informer.version > self.collection.cursor:
            return
        lists = informer.lists
        is_in_window = informer.version >= self.collection.window_start
        informer.watch(self.collection)
        assert informer.lists == lists + (not is_in_window)

    # ── what always holds ──

    @invariant()
    def holds_what_upstream_held_at_the_cursor(self) -> None:
        collection = self.collection
        held = {key: item.raw for key, item in collection.objects.items()}
        assert held == self.upstream.state(self.selector, collection.cursor)
        assert collection.fingerprint == fingerprint_of(collection.objects.values())

    @invariant()
    def watchers_hold_their_part(self) -> None:
        for informer in self._watching():
            assert informer.state == self.upstream.state(informer.selector, self.collection.cursor)

    @invariant()
    def the_window_is_whole_and_within_its_bounds(self) -> None:
        window = self.collection.since(self.collection.window_start)
        versions = [change.version for change in window]
        assert versions == sorted(versions)
        assert len(window) <= WINDOW_EVENTS
        states = {id(i): i for c in window for i in (c.item, c.previous) if i is not None}
        states |= {id(item): item for item in self.collection.objects.values()}
        held = sum(len(item.raw) for item in states.values())
        assert held <= self.collection.size_bytes
        current = sum(len(item.raw) for item in self.collection.objects.values())
        assert self.collection.size_bytes <= current + self.window_bytes

    def _empty(self) -> Collection:
        return Collection(window_bytes=self.window_bytes, window_events=WINDOW_EVENTS)

    def _watching(self) -> list[Informer]:
        return [informer for informer in self.informers if informer.is_watching]

    def _apply(self, line: bytes) -> None:
        change = self.collection.apply(read_event(line))
        if change is not None:
            for informer in self._watching():
                informer.follow(change)


def test_watchers_hold_their_part_of_the_stream_at_every_step() -> None:
    run_state_machine_as_test(Watchers, settings=play(200, steps=40))
