"""The seconds that shards had no owner, which is a metric."""

from elector_sidecar.shards.shard_view import UnownedTime


def test_each_shard_counts_for_as_long_as_it_has_no_owner() -> None:
    time = UnownedTime()
    time.look(100.0, 0)
    assert time.seconds == 0
    time.look(110.0, 3)
    time.look(112.0, 3)
    assert time.seconds == 6
    time.look(113.0, 1)
    time.look(115.0, 0)
    time.look(200.0, 0)
    assert time.seconds == 3 * 3 + 2
