"""Reflection, collection and informers under drawn faults: they always end equal to upstream."""

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from relay_sidecar.core.stream.commands import Trouble
from relay_sidecar.core.stream.pace import LONGEST_REFUSAL_DELAY
from tests.examples import play
from tests.unit.relay.streams.upstream import Selector, puts, writes
from tests.unit.relay.streams.world import World

WIDE = [Selector(), Selector(app="web"), Selector(tier="front")]
NARROW = [*WIDE, Selector(app="web", tier="front"), Selector(name="a")]
WRITES = st.lists(writes(), min_size=1, max_size=6)


class Streams(RuleBasedStateMachine):
    @initialize(
        selector=st.sampled_from(WIDE),
        page_limit=st.integers(1, 2),
        window_events=st.sampled_from([0, 3, 100]),
        asks_for_one=st.booleans(),
        before=st.lists(puts(), min_size=6, max_size=12),
    )
    def begin(
        self,
        selector: Selector,
        page_limit: int,
        window_events: int,
        asks_for_one: bool,
        before: list[tuple[str, ...]],
    ) -> None:
        self.world = World(
            selector,
            page_limit=page_limit,
            window_events=window_events,
            asks_for_one=asks_for_one,
        )
        self.world.upstream.perform(before)

    @rule(chance=st.floats(0, 0.999))
    def draw_chance(self, chance: float) -> None:
        self.world.chance = chance

    @rule(writes=WRITES)
    def write(self, writes: list[tuple[str, ...]]) -> None:
        self.world.upstream.perform(writes)

    @rule(revisions=st.integers(1, 3), slowly=st.booleans())
    def answer(self, revisions: int, slowly: bool) -> None:
        self.world.answer(revisions, slowly=slowly)

    @rule(writes=WRITES)
    def get_on(self, writes: list[tuple[str, ...]]) -> None:
        """All is well for a while."""
        self.world.upstream.perform(writes)
        self.world.link(True)
        for _ in range(8):
            self.world.answer(100)
            self.world.pump()

    @rule(what=st.sampled_from(["look", "look", "tell", "tell", "want", "lose"]))
    def confirm(self, what: str) -> None:
        """What upstream is asked beside the watch."""
        match what:
            case "look":
                self.world.look()
            case "tell":
                self.world.tell()
            case "want":
                self.world.want()
            case "lose":
                self.world.lose_question()

    @rule(
        writes=WRITES,
        asked=st.sampled_from(["before", "after"]),
        answered=st.integers(0, 2),
        revisions=st.integers(0, 3),
    )
    def open_again(
        self, writes: list[tuple[str, ...]], asked: str, answered: int, revisions: int
    ) -> None:
        """The watch breaks, and what was missed comes after its opening, in part."""
        world = self.world
        world.link(True)
        if asked == "before":
            world.want()
            world.pump()
            world.look()
        world.fail(Trouble.UNREACHABLE, 0.0)
        world.upstream.perform(writes)
        for _ in range(2):
            world.sleep(5)
            world.pump()
            if not world.is_open:
                world.answer(0)
        for _ in range(answered):
            world.sleep(1)
            world.pump()
            world.look()
            world.tell()
        for _ in range(revisions):
            world.answer(1)
            world.pump()

    @rule(seconds=st.sampled_from([5.0, 20.0, 100.0]), writes=WRITES)
    def stand_still(self, seconds: float, writes: list[tuple[str, ...]]) -> None:
        self.world.upstream.perform(writes)
        self.world.stand_still(seconds)

    @rule()
    def bookmark(self) -> None:
        self.world.bookmark()

    @rule(trouble=st.sampled_from(Trouble), retry_after=st.sampled_from([0.0, 0.0, 1.0, 1e6]))
    def fail(self, trouble: Trouble, retry_after: float) -> None:
        self.world.fail(trouble, retry_after)

    @rule(cut=st.integers(0, 1000))
    def garble(self, cut: int) -> None:
        self.world.garble(cut)

    @rule()
    def end_watch(self) -> None:
        self.world.end_watch()

    @rule(is_up=st.booleans())
    def link(self, is_up: bool) -> None:
        self.world.link(is_up)

    @rule(writes=WRITES, forced=st.booleans())
    def list_again(self, writes: list[tuple[str, ...]], forced: bool) -> None:
        """The list is left at some page."""
        if forced:
            self.world.relist()
        else:
            self.world.fail(Trouble.UNREACHABLE, 0.0)
            self.world.upstream.perform(writes)
            self.world.upstream.compact()
            self.world.sleep(10)
        for _ in writes:
            self.world.pump()
            self.world.answer(1)

    @rule(what=st.sampled_from(["tick", "compact", "relist", "restart", "restart"]))
    def shake(self, what: str) -> None:
        match what:
            case "tick":
                self.world.upstream.tick()
            case "compact":
                self.world.upstream.compact()
            case "relist":
                self.world.relist()
            case "restart":
                self.world.restart()

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 89.0, 91.0, 1000.0]))
    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)

    @rule(selector=st.sampled_from(NARROW))
    def join(self, selector: Selector) -> None:
        self.world.join(selector)

    @rule()
    def come_back(self) -> None:
        self.world.come_back()

    @rule()
    def calm(self) -> None:
        assert self.world.calm() <= 2 * LONGEST_REFUSAL_DELAY

    @invariant()
    def holds(self) -> None:
        self.world.pump()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.calm()


def test_a_stream_and_its_watchers_end_equal_to_upstream_after_any_faults() -> None:
    run_state_machine_as_test(Streams, settings=play(200, steps=40))
