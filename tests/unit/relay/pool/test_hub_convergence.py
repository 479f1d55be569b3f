"""N5: a stream that goes from hub to hub and to the API server ends equal to upstream, and so do
the clients behind it: whatever hubs lag, list again, start again or end, is drawn."""

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
from tests.unit.relay.pool.hub_world import CLOUD, Follower, Hub
from tests.unit.relay.streams.upstream import Selector, puts, writes
from tests.unit.relay.streams.world import World

HUBS = ("n1", "n2")
SOURCES = st.sampled_from([CLOUD, *HUBS, *HUBS])
NARROW = [Selector(), Selector(app="web"), Selector(tier="front"), Selector(name="a")]
WRITES = st.lists(writes(), min_size=1, max_size=6)


class Pool(RuleBasedStateMachine):
    @initialize(
        window_events=st.sampled_from([0, 3, 100]),
        hub_window=st.sampled_from([0, 3, 100]),
        asks_for_one=st.booleans(),
        before=st.lists(puts(), min_size=3, max_size=9),
    )
    def begin(
        self,
        window_events: int,
        hub_window: int,
        asks_for_one: bool,
        before: list[tuple[str, ...]],
    ) -> None:
        hubs = {name: World(Selector(), page_limit=2, window_events=hub_window) for name in HUBS}
        self.follower = Follower(
            {name: Hub(it) for name, it in hubs.items()},
            window_events=window_events,
            asks_for_one=asks_for_one,
        )
        self.upstream = self.follower.upstream
        self.upstream.perform(before)
        self.hubs = [*hubs.values()]
        for hub in self.hubs:
            hub.upstream = self.upstream
            hub.calm()
        self.worlds: list[World] = [self.follower, *self.hubs]
        self.sleep(0.0)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 10.0, 91.0]))
    def sleep(self, seconds: float) -> None:
        now = max(it.now for it in self.worlds) + seconds
        for it in self.worlds:
            it.now = now

    @rule(writes=WRITES)
    def write(self, writes: list[tuple[str, ...]]) -> None:
        self.upstream.perform(writes)

    @rule(what=st.sampled_from(["tick", "compact"]))
    def shake(self, what: str) -> None:
        if what == "tick":
            self.upstream.tick()
        else:
            self.upstream.compact()

    @rule(source=SOURCES)
    def turn(self, source: str) -> None:
        self.follower.turn_to(source)

    @rule(is_cut=st.booleans())
    def cut(self, is_cut: bool) -> None:
        self.follower.cut(is_cut)

    @rule(who=st.integers(0, 2), revisions=st.integers(1, 3), slowly=st.booleans())
    def answer(self, who: int, revisions: int, slowly: bool) -> None:
        self.worlds[who].answer(revisions, slowly=slowly)

    @rule(who=st.integers(0, 2))
    def bookmark(self, who: int) -> None:
        self.worlds[who].bookmark()

    @rule(who=st.integers(0, 2))
    def get_on(self, who: int) -> None:
        """All that it waits for comes, and it is proved."""
        it = self.worlds[who]
        for _ in range(6):
            self.sleep(0.5)
            it.pump()
            it.answer(1000)
            it.look()
            it.tell()

    @rule(who=st.integers(0, 2), what=st.sampled_from(["look", "tell", "want", "lose_question"]))
    def confirm(self, who: int, what: str) -> None:
        getattr(self.worlds[who], what)()

    @rule(
        who=st.integers(0, 2), what=st.sampled_from(["restart", "relist", "end_watch", "break off"])
    )
    def strike(self, who: int, what: str) -> None:
        it = self.worlds[who]
        if what == "break off":
            it.fail(Trouble.UNREACHABLE, 0.0)
        else:
            getattr(it, what)()

    @rule(selector=st.sampled_from(NARROW))
    def join(self, selector: Selector) -> None:
        self.follower.join(selector)

    @rule()
    def come_back(self) -> None:
        self.follower.come_back()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "worlds"):
            for it in self.worlds:
                it.pump()

    def teardown(self) -> None:
        if not hasattr(self, "worlds"):
            return
        for hub in self.hubs:
            hub.calm()
        for source in (*HUBS, CLOUD):
            self.sleep(0.0)
            assert self.follower.settle(source) <= 2 * LONGEST_REFUSAL_DELAY


def test_a_stream_that_changes_hubs_and_its_watchers_end_equal_to_upstream() -> None:
    run_state_machine_as_test(Pool, settings=play(200, steps=40))
