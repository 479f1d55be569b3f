"""A rolling update with real electors: the lead is handed over, and no Lease has to end for it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.manifests.live_rollout import NEW, REPLICAS, LiveRollout
from tests.unit.manifests.built import Json, workload, write_kustomization
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import Ready, overlaps, wait_for

OLD = "example.com/shop:1"
# Seconds, on a busy machine: two thirds of a Lease's, which nobody waits for. Promised is one.
LONGEST = 10.0
Record = Callable[[str, object], None]


def _objects(folder: Path, component: str) -> list[Json]:
    body = workload(serviceAccountName="default")
    return kustomize(write_kustomization(folder, [body], components=["elector-sidecar", component]))


def _gaps(answers: Sequence[Ready]) -> Iterator[float]:
    """Seconds between the last answer of one term and the first of the next."""
    for before, after in pairwise(answers):
        if after.token != before.token:
            yield after.received - before.received


def _judge(rollout: LiveRollout, record_property: Record) -> None:
    # The new leader's pod may be ready before it was observed.
    wait_for(
        lambda: any(_gaps(rollout.answers())), timeout=LONGEST, what="a hand-over that was observed"
    )
    answers = rollout.answers()
    assert overlaps(answers) == []
    gaps = [round(gap, 2) for gap in _gaps(answers)]
    record_property("seconds_without_a_leader", gaps)
    print(f"seconds without a leader at each hand-over: {gaps}")
    assert max(gaps) < LONGEST


@pytest.mark.slow
def test_with_the_leader_label_each_hand_over_is_a_moment(
    own_plane: ControlPlane, tmp_path: Path, record_property: Record
) -> None:
    """The main ends at once."""
    with LiveRollout(
        own_plane, _objects(tmp_path, "leader-label"), main_ends=lambda _: None
    ) as rollout:
        rollout.settle(ready=REPLICAS, image=OLD)
        rollout.update()
        rollout.settle(ready=REPLICAS, image=NEW)
        _judge(rollout, record_property)


@pytest.mark.long
@pytest.mark.slow
def test_with_readiness_of_the_leader_it_is_a_moment_where_mains_end_after_new_ones_start(
    own_plane: ControlPlane, tmp_path: Path, record_property: Record
) -> None:
    def main_ends(rollout: LiveRollout) -> None:
        wait_for(
            lambda: len(rollout.running()) >= 2 * REPLICAS or rollout.is_over,
            timeout=60,
            what="all new electors run",
        )

    with LiveRollout(
        own_plane, _objects(tmp_path, "ready-when-leading"), main_ends=main_ends
    ) as rollout:
        rollout.settle(ready=1, image=OLD)
        rollout.update()
        rollout.settle(ready=1, image=NEW)
        _judge(rollout, record_property)
