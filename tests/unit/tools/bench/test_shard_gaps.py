"""How long a shard that changed its owner had none, by what its owners' streams said."""

from tools.bench.shards.followed import Owned, gaps


def owned(since: float, *shards: int) -> Owned:
    return Owned(since, frozenset(shards))


def test_a_gap_is_from_the_loss_to_the_gain_of_each_shard_that_moved() -> None:
    giver = [owned(0.0, 1, 2, 3), owned(10.0, 1, 2), owned(10.5, 1)]
    taker = [owned(0.0), owned(10.25, 3), owned(11.0, 2, 3)]
    assert gaps([giver, taker]) == {3: 0.25, 2: 0.5}


def test_a_shard_that_stays_has_no_gap() -> None:
    assert gaps([[owned(0.0, 1)], [owned(0.0, 2)]]) == {}
