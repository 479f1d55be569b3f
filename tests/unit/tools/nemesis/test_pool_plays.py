"""What the nemesis of pools plays: the seed alone decides, and no fault of a scene keeps another
one of it from beginning."""

import random
from itertools import combinations

import pytest

from tools.nemesis.pool import plays
from tools.nemesis.pool.faults import KINDS, resources

SEEDS = range(50)
ALL_SCENES = {**plays.SCENES, **plays.LONG_SCENES}


@pytest.mark.parametrize("name", ALL_SCENES)
def test_faults_of_a_scene_hold_at_once_as_they_are_meant_to(name: str) -> None:
    for seed in SEEDS:
        cues = ALL_SCENES[name](random.Random(seed))
        assert cues == ALL_SCENES[name](random.Random(seed))
        assert {it.draw.kind for it in cues} <= KINDS.keys()
        for one, other in combinations(cues, 2):
            assert not resources(one.draw) & resources(other.draw)


def test_a_storm_draws_every_kind_of_fault_and_the_same_by_the_same_seed() -> None:
    drawn = [it for seed in range(500) for it in plays.storm(random.Random(seed))]
    assert drawn == [it for seed in range(500) for it in plays.storm(random.Random(seed))]
    assert {it.kind for it in drawn} == KINDS.keys()
    for it in drawn:
        assert 0 < it.seconds <= plays.LONGEST
        assert resources(it)
