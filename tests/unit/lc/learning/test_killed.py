"""LC is killed between any two effects, and goes on from what is on disk."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lc.core.learning.state import State
from tests.examples import examples
from tests.unit.lc.learning.world import World

KILLS = st.none() | st.integers(0, 6)
ENDS = st.sampled_from(("failed", "worse", "better"))
# A stage from its beginning to its end reaches further than single steps, which find odd orders.
STEPS = st.one_of(
    st.tuples(st.just("data"), st.integers(1, 12)),
    st.tuples(st.just("time"), st.sampled_from((5, 10, 60, 3600))),
    st.tuples(st.just("lc"), KILLS),
    st.tuples(st.just("gm")),
    st.tuples(st.just("work"), ENDS, KILLS),
    st.tuples(st.just("stage"), st.integers(0, 6), KILLS, ENDS, KILLS),
    st.tuples(st.just("stage"), st.integers(0, 6), KILLS, ENDS, KILLS),
)


def play(world: World, step: tuple[object, ...]) -> None:
    match step:
        case "data", int(count):
            world.data += range(len(world.data), len(world.data) + count)
        case "time", int(seconds):
            world.seconds += seconds
        case "lc", kill_at:
            world.kill_at = kill_at  # type: ignore[assignment]
            world.lc()
            world.kill_at = None
        case ("gm",):
            world.gm()
        case "work", str(end), kill_at:
            world.kill_at = kill_at  # type: ignore[assignment]
            world.work(success=end != "failed", better=end == "better")
            world.kill_at = None
        case "stage", count, first, end, second:
            for each in (
                ("data", count),
                ("lc", first),
                ("lc", None),
                ("gm",),
                ("work", end, second),
                ("gm",),
                ("time", 3600),
            ):
                play(world, each)
    world.check()


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_sample_is_lost_or_doubled_and_no_round_begins_twice(
    steps: list[tuple[object, ...]],
) -> None:
    world = World()
    for step in steps:
        play(world, step)


def run(kill_at: int | None) -> World:
    """Two stages and a half, twice over."""
    world = World(data=[*range(10)])
    world.kill_at = kill_at
    for _ in range(8):
        world.lc()
        world.gm()
        world.work(success=True, better=True)
        world.gm()
        world.seconds += 60
        world.check()
    return world


def test_a_kill_before_each_effect_of_a_round_leads_to_the_same_round() -> None:
    """Every boundary once: what GM is told and what lies in the files is as without a kill."""
    plain = run(None)
    assert plain.kills == 0
    assert plain.begun["Train", 1] == [*range(8)]
    assert plain.begun["Eval", 1] == [8, 9]
    assert ("Deploy", 1) in plain.begun
    boundaries = 0
    while (killed := run(boundaries)).kills:
        assert killed.begun == plain.begun
        assert killed.files == plain.files
        assert killed.conditions == plain.conditions
        assert killed.saved is not None
        assert State.decode(killed.saved).spool_files == frozenset(killed.spool)
        boundaries += 1
    assert boundaries >= 10
