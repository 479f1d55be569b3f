"""A leader and a standby for tests that only look."""

from tests.pods.fleet import Fleet
from tests.pods.observer import wait_for, wait_for_leader


class Pair:
    """A leader and a standby that stay so, for tests that change nothing."""

    def __init__(self, fleet: Fleet) -> None:
        fleet.create_empty_lease()
        self.leader = fleet.add("--probe-listen", "127.0.0.1:0")
        wait_for_leader([self.leader], timeout=10)
        self.standby = fleet.add("--probe-listen", "127.0.0.1:0")
        wait_for(
            lambda: self.standby.leader()["holder"] == self.leader.identity,
            timeout=10,
            what="the standby knows the leader",
        )
