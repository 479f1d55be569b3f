"""From where a pool-scoped stream comes, in virtual time: what hubs there are, which of them fail
and how, is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_sidecar.pool.sources import (
    API_SERVER,
    EXPIRED_LEFT,
    FIRST_LEFT,
    GOOD,
    LONGEST_LEFT,
    SILENT,
    SPREAD,
    Opening,
    SourceChoice,
)
from tests.examples import examples

# Seconds between two looks at what the pool says.
LOOK = 2.0
NAMES = ("n1", "n2")


def opened(choice: SourceChoice, hubs: Sequence[str], now: float) -> str:
    """Where it comes from, after whatever delay."""
    if choice.open(hubs, now, 0.5, is_lost=True).delay:
        choice.open(hubs, now, 0.5, is_lost=True)
    return choice.hub


def test_the_hub_comes_first_and_the_api_server_where_there_is_none() -> None:
    choice = SourceChoice()
    assert opened(choice, [], 0.0) == API_SERVER
    assert choice.is_wrong(["n1"], 2.0), "there is a hub now"
    assert opened(choice, ["n1"], 2.0) == "n1"
    assert not choice.is_wrong(["n1", "n2"], 4.0)
    assert choice.is_wrong(["n2"], 6.0), "another one leads"
    assert opened(choice, ["n2"], 6.0) == "n2"
    assert choice.is_wrong([], 8.0)
    assert opened(choice, [], 8.0) == API_SERVER


def test_from_a_lost_hub_to_the_api_server_there_is_one_delay_of_chance() -> None:
    choice = SourceChoice()
    opened(choice, ["n1"], 0.0)
    waits = choice.open([], 1.0, 0.75, is_lost=True)
    assert (waits.hub, waits.delay) == (API_SERVER, 0.75 * SPREAD)
    assert choice.open([], 3.0, 0.75, is_lost=True).delay == 0.0
    assert choice.open([], 9.0, 0.75, is_lost=True).delay == 0.0, "it is there already"


def test_one_who_leads_itself_goes_to_the_api_server_at_once() -> None:
    choice = SourceChoice()
    opened(choice, ["n1"], 0.0)
    assert choice.open([], 1.0, 0.75, is_lost=False).delay == 0.0


def test_a_hub_that_comes_during_the_delay_is_taken() -> None:
    choice = SourceChoice()
    opened(choice, ["n1"], 0.0)
    assert choice.open([], 1.0, 0.75, is_lost=True).delay > 0
    assert choice.open(["n2"], 2.0, 0.75, is_lost=True).hub == "n2"


def test_a_hub_that_fails_is_left_for_longer_each_time_until_it_was_good() -> None:
    choice, now, left = SourceChoice(), 0.0, []
    for _ in range(8):
        assert opened(choice, ["n1"], now) == "n1"
        choice.failed(now)
        since = now
        while choice.open(["n1"], now, 0.0, is_lost=False).hub == API_SERVER:
            now += 0.5
        left.append(now - since)
    assert left == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
    assert (left[0], left[-1]) == (FIRST_LEFT, LONGEST_LEFT)
    now += GOOD
    choice.failed(now)
    assert not choice.may_ask(["n1"], now + FIRST_LEFT - 0.1, is_up=False)
    assert choice.may_ask(["n1"], now + FIRST_LEFT, is_up=False)


def test_a_hub_whose_window_begins_later_is_left_until_a_bookmark_has_come() -> None:
    choice, now = SourceChoice(), 0.0
    for _ in range(5):
        assert opened(choice, ["n1"], now) == "n1"
        choice.failed(now, is_expired=True)
        assert not choice.may_ask(["n1"], now + EXPIRED_LEFT - 0.1, is_up=False)
        now += EXPIRED_LEFT
        assert choice.may_ask(["n1"], now, is_up=False), "it did nothing wrong"


def test_a_hub_that_is_silent_for_longer_than_bookmarks_take_is_left() -> None:
    choice = SourceChoice()
    opened(choice, ["n1"], 0.0)
    choice.heard(50.0)
    assert not choice.is_wrong(["n1"], 50.0 + SILENT)
    assert choice.is_wrong(["n1"], 50.1 + SILENT)
    assert opened(choice, ["n1"], 50.1 + SILENT) == API_SERVER


def test_what_is_left_is_one_hub_not_the_next_one() -> None:
    choice = SourceChoice()
    opened(choice, ["n1", "n2"], 0.0)
    choice.failed(0.0)
    assert opened(choice, ["n1", "n2"], 0.0) == "n2"


def test_while_the_link_is_down_only_a_hub_is_asked() -> None:
    choice = SourceChoice()
    assert choice.may_ask(["n1"], 0.0, is_up=False)
    assert not choice.may_ask([], 0.0, is_up=False)
    assert choice.may_ask([], 0.0, is_up=True)


# ── drawn ──


@dataclass(frozen=True)
class Step:
    """For so many looks: who are hubs, which of those fail as soon as they are asked, whether the
    API server is within reach."""

    looks: int
    hubs: tuple[str, ...]
    failing: frozenset[str]
    is_up: bool


STEPS = st.lists(
    st.builds(
        Step,
        looks=st.integers(1, 40),
        hubs=st.lists(st.sampled_from(NAMES), unique=True).map(tuple),
        failing=st.frozensets(st.sampled_from(NAMES)),
        is_up=st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@dataclass
class Stream:
    """What a relay does with its choice: it opens what it is told, and reports failures."""

    choice: SourceChoice
    asked: list[tuple[float, str]] = field(default_factory=list)
    is_open: bool = False

    def look(self, step: Step, now: float) -> None:
        choice = self.choice
        if self.is_open and choice.hub in step.failing and choice.hub != API_SERVER:
            choice.failed(now)
            self.is_open = False
        if self.is_open and choice.is_wrong(step.hubs, now):
            self.is_open = False
        if self.is_open and choice.hub == API_SERVER and not step.is_up:
            self.is_open = False
        if choice.hub != API_SERVER:
            choice.heard(now)
        # Whatever fails in one moment is asked for in that moment.
        for _ in range(10):
            if self.is_open or not choice.may_ask(step.hubs, now, is_up=step.is_up):
                return
            opening = choice.open(step.hubs, now, 0.0, is_lost=step.is_up)
            self.asked.append((now, opening.hub))
            self.is_open = opening.hub not in step.failing
            if not self.is_open:
                choice.failed(now)
        raise AssertionError(f"it asks on and on: {self.asked[-10:]}")


def played(steps: Sequence[Step], make: Callable[[], SourceChoice]) -> None:
    stream, now, failed = Stream(make()), 0.0, frozenset[str]()
    for step in steps:
        for _ in range(step.looks):
            before = len(stream.asked)
            stream.look(step, now)
            for at, hub in stream.asked[before:]:
                assert hub == API_SERVER or hub in step.hubs, f"{hub} is no hub at {at}"
                assert hub != API_SERVER or step.is_up, "nobody is there"
            failed |= step.failing
            if step.is_up or set(step.hubs) - failed:
                assert stream.is_open, f"something could be read at {now}"
            now += LOOK
    for name in NAMES:
        times = [at for at, hub in stream.asked if hub == name]
        assert len(times) <= 2 + now / FIRST_LEFT + 2 * len(steps), "a loop"


@given(STEPS)
@settings(max_examples=examples(300))
def test_a_stream_is_never_fed_by_who_is_no_hub_and_no_hub_makes_a_loop(steps: list[Step]) -> None:
    played(steps, SourceChoice)


class NeverLeaves(SourceChoice):
    """A hub that failed is asked again at once."""

    def failed(self, now: float, *, is_expired: bool = False) -> None:
        """Nothing follows."""


class StaysWhereItIs(SourceChoice):
    """One who leads no more feeds on."""

    def is_wrong(self, hubs: Sequence[str], now: float) -> bool:
        return False

    def open(self, hubs: Sequence[str], now: float, chance: float, *, is_lost: bool) -> Opening:
        return super().open(hubs or ["n1"], now, chance, is_lost=is_lost)


class WaitsForTheLink(SourceChoice):
    """A hub is not asked while the own link is down."""

    def may_ask(self, hubs: Sequence[str], now: float, *, is_up: bool) -> bool:
        return is_up


UP = Step(3, (), frozenset(), is_up=True)
MUTANTS = (
    (NeverLeaves, Step(40, ("n1",), frozenset({"n1"}), is_up=True)),
    (StaysWhereItIs, Step(3, ("n2",), frozenset(), is_up=True)),
    (WaitsForTheLink, Step(3, ("n1",), frozenset(), is_up=False)),
)


@pytest.mark.parametrize(("mutant", "step"), MUTANTS)
def test_a_mutant_is_noticed(mutant: type[SourceChoice], step: Step) -> None:
    played([UP, step, UP], SourceChoice)
    with pytest.raises(AssertionError):
        played([UP, step, UP], mutant)
