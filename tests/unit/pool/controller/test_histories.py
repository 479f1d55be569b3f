"""N3, (8) and the limits in drawn histories; and that each of them is seen to be broken."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import PROFILE, examples
from tests.unit.pool.controller.history import KINDS, NODES, Step, play
from tests.unit.pool.controller.mutants import MUTANTS, make

_SMALL = st.integers(0, 17)
STEPS = st.lists(
    st.builds(Step, st.integers(0, len(KINDS) - 1), _SMALL, st.integers(0, 255), _SMALL),
    max_size=60,
)
# So many histories of so many steps find most mutants; the same ones each time. The rare ones take
# minutes, and are looked for with HYPOTHESIS_PROFILE=nightly.
# What is needed twice for a taint to come and to go.
MIXED = (*KINDS, "link", "ready")
HISTORIES, LENGTH = 400, 60
RARE_HISTORIES = 4000
RARE = (
    *("no limit", "a pace that starts anew", "not confirmed", "moved without a new member"),
    *("taints stay behind", "as fresh as it says", "a loss that goes on", "no pace"),
)


@settings(max_examples=examples(1500), deadline=None)
@given(STEPS, st.integers(0, 2))
def test_unknown_is_kept_and_dead_is_rare_and_leaves_nothing_behind(
    steps: list[Step], limit: int
) -> None:
    assert play(steps, limit=limit) == []


@pytest.mark.long
@pytest.mark.slow  # together
@pytest.mark.parametrize("name", [it for it in MUTANTS if it not in RARE])
def test_each_fault_is_caught(name: str) -> None:
    _is_caught(name, HISTORIES)


if PROFILE == "nightly":

    @pytest.mark.slow
    @pytest.mark.parametrize("name", RARE)
    def test_each_rare_fault_is_caught(name: str) -> None:
        _is_caught(name, RARE_HISTORIES)


def _is_caught(name: str, histories: int) -> None:
    mutant = make(name)
    chance = random.Random(7)
    for number in range(histories):
        if play(_history(chance), mutant, limit=number):
            return
    raise AssertionError(f"{histories} histories do not catch it")


def _history(chance: random.Random) -> list[Step]:
    """Mostly of one node that is lost and told of."""
    target = chance.randrange(len(NODES))
    steps = []
    for _ in range(LENGTH):
        node = target if chance.random() < 0.6 else chance.randrange(len(NODES))
        kind = chance.choice(("lost", "all report", "run", "")) or chance.choice(MIXED)
        mask = chance.choice((255, chance.randrange(256)))
        steps.append(Step(KINDS.index(kind), node, mask, chance.randrange(18)))
    return steps
