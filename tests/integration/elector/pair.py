"""A leader and a standby for tests that only look."""

from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader


class Pair:
    """A leader and a standby that stay so, however slow this machine is, for tests that change
    nothing."""

    def __init__(self, fleet: Fleet) -> None:
        fleet.create_empty_lease()
        self.leader = fleet.add("--probe-listen", "127.0.0.1:0", timing=STEADY)
        wait_for_leader([self.leader], timeout=20)
        self.standby = fleet.add("--probe-listen", "127.0.0.1:0", timing=STEADY)
        wait_for(
            lambda: self.standby.leader()["holder"] == self.leader.identity,
            timeout=20,
            what="the standby knows the leader",
        )
