"""The single election when etcd is restored from a backup while a leader lives."""

import time

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader
from tools.harness.pods.wire.http_client import answered

# A lead outlasts the restore, in which no API server answers.
TIMING = ("--lease-duration", "12s", "--renew-interval", "1s", "--request-timeout", "2s")
DURATION = 12.0
# Seconds by which somebody leads later than a lease after the restore, on a busy machine.
SOON = 5.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "backup",
    [
        pytest.param("never held", marks=pytest.mark.long),
        "held by the leader",
        pytest.param("held by another", marks=pytest.mark.long),
    ],
)
def test_p1_whatever_the_backup_says_nobody_leads_beside_the_leader_of_the_lost_history(
    backup: str,
) -> None:
    with ControlPlane() as plane, Fleet(plane, plane.create_namespace()) as fleet:
        fleet.create_empty_lease()
        account = plane.service_account_dir(fleet.namespace, "elector", ELECTOR_RULES)
        if backup == "never held":
            plane.back_up()
        for _ in range(3):
            fleet.add(timing=TIMING, credentials=account)
        leader = wait_for_leader(fleet.pods, timeout=DURATION)
        if backup != "never held":
            plane.back_up()
        if backup == "held by another":
            before = leader
            assert answered(before, "/resign", method="POST").status == 200
            wait_for(lambda: not before.is_leader(), timeout=DURATION, what="its resignation")
            leader = wait_for_leader(fleet.pods, timeout=DURATION)
            assert leader is not before
        # Who starts in the moment of a restore knows nothing of the lost history.
        wait_for(
            lambda: all(pod.leader()["holder"] == leader.identity for pod in fleet.pods),
            timeout=SOON,
            what="all know the leader",
        )
        with Observer(fleet.pods) as observer:
            plane.restore()
            time.sleep(DURATION)
            wait_for_leader(fleet.pods, timeout=SOON)
        observer.assert_exclusive()
        assert all(pod.is_running for pod in fleet.pods)
