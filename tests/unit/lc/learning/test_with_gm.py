"""LC's learning and GM's stages, played with each other: GM's own core decides, pods and all."""

from typing import Any

import pytest

from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import hot, incremental
from tests.unit.lc.learning.jobs import later
from tests.unit.lc.learning.world import EVERY, PRECISIONS, World


class Pair(World):
    """`gm` folds what LC said; pods run when GM has made them."""

    def __init__(self, subject: dict[str, Any]) -> None:
        super().__init__()
        subject["spec"]["trainSpec"]["trigger"] = EVERY
        self.cluster = Cluster(subject)
        self.cluster.settle()
        self.conditions = self.cluster.conditions

    def manifest(self) -> dict[str, Any]:
        return self.cluster.subject

    def gm(self) -> None:
        while self.queue:
            self.cluster.report(self.queue.pop(0))
            self.settle()
        self.settle()

    def settle(self) -> None:
        self.cluster.now = later(self.seconds)
        self.cluster.settle()
        self.conditions = self.cluster.conditions

    def pod(self, phase: str) -> None:
        stage, _, number = self.cluster.state
        name = f"il1-{stage.lower()}-{number}-0"
        self.cluster.run(name, phase, node="edge-a")
        self.settle()

    def say(self, *, success: bool = True, end: str = "better") -> None:
        stage = self.cluster.state[0]
        model = {"format": "pb", "url": f"/srv/out/train/{self.round}/model.pb"}
        results: tuple[dict[str, Any], ...] = (model,)
        if stage == "Eval":
            results = tuple(model | {"metrics": {"precision": it}} for it in PRECISIONS[end])
        self.worker(stage, "completed" if success else "failed", results if success else ())

    def stage(self, *, is_pod_first: bool = False, end: str = "better") -> None:
        self.lc()
        self.gm()
        self.pod("Running")
        if is_pod_first:
            self.pod("Succeeded")
        self.say(end=end)
        self.gm()

    def add(self, count: int) -> None:
        self.data += range(len(self.data), len(self.data) + count)


@pytest.mark.parametrize("is_pod_first", [False, True])
def test_a_round_ends_in_a_better_model_whoever_is_first(is_pod_first: bool) -> None:
    """A pod's success before LC's report ends Sedna's LC, or loses a better model."""
    pair = Pair(incremental())
    pair.add(10)
    pair.stage(is_pod_first=is_pod_first)
    assert pair.cluster.state == ("Eval", "Waiting", "1")
    environment = pair.cluster.environment("Pod", "il1-train-1-0")
    assert environment["TRAIN_DATASET_URL"] == "/home/data/srv/out/data/train/1/data.txt"
    pair.stage(is_pod_first=is_pod_first)
    assert pair.cluster.state == ("Deploy", "Waiting", "1")
    pair.lc()
    pair.gm()
    pair.cluster.run_all("Running")
    pair.settle()
    assert pair.cluster.state == ("Train", "Waiting", "2")
    assert pair.cluster.refused == []
    pair.add(10)
    pair.seconds += 60
    pair.stage()
    environment = pair.cluster.environment("Pod", "il1-train-2-0")
    assert environment["BASE_MODEL_URL"].endswith("/srv/out/train/1/model.pb")
    pair.check()


def test_a_model_that_is_no_better_ends_the_round_with_the_reason() -> None:
    pair = Pair(incremental())
    pair.add(10)
    pair.stage()
    pair.stage(end="worse")
    pair.lc()
    pair.gm()
    assert pair.cluster.state == ("Train", "Waiting", "2")
    assert pair.conditions[-2]["message"] == "kept: precision_delta[0]=-0.4 is not > 0.1"


def test_samples_of_a_failed_round_are_trained_in_the_next() -> None:
    pair = Pair(incremental())
    pair.add(10)
    pair.lc()
    pair.gm()
    pair.pod("Running")
    pair.say(success=False)
    pair.gm()
    assert pair.cluster.state == ("Train", "Failed", "1")
    pair.seconds += 10
    pair.settle()
    assert pair.cluster.state == ("Train", "Waiting", "2")
    pair.lc()
    assert ("Train", 2) not in pair.begun, "not at once"
    pair.seconds += 60
    pair.lc()
    assert pair.begun["Train", 2] == pair.begun["Train", 1]
    pair.gm()
    assert pair.cluster.state == ("Train", "Starting", "2")


def test_a_pod_that_fails_without_a_word_gives_its_samples_back() -> None:
    pair = Pair(incremental())
    pair.add(10)
    pair.lc()
    pair.gm()
    pair.pod("Failed")
    pair.seconds += 3600
    pair.settle()
    pair.lc()
    pair.seconds += 3600
    pair.lc()
    assert pair.begun["Train", 2] == pair.begun["Train", 1]
    # The worker's word of round 1, which was late, opens nothing.
    pair.gm()
    state = pair.cluster.state
    pair.worker("Train", "completed", ({"format": "pb", "url": "/late.pb"},))
    pair.gm()
    assert state == ("Train", "Starting", "2")
    pair.check()


def test_a_training_without_a_model_fails_the_round_and_not_lc() -> None:
    """Sedna's LC ends on it."""
    pair = Pair(incremental())
    pair.add(10)
    pair.lc()
    pair.gm()
    pair.pod("Running")
    pair.worker("Train", "completed", ())
    pair.gm()
    assert pair.cluster.state == ("Eval", "Waiting", "1")
    pair.lc()
    pair.gm()
    assert pair.cluster.state == ("Eval", "Failed", "1")
    assert "the training left no model" in pair.cluster.last["message"]


def test_a_hot_update_is_completed_by_the_worker_that_serves() -> None:
    pair = Pair(hot())
    pair.add(10)
    pair.stage()
    pair.stage()
    pair.lc()
    pair.gm()
    pair.cluster.run_all("Running")
    pair.settle()
    assert pair.cluster.state == ("Deploy", "Running", "1")
    pair.lc()
    pair.worker("deploy", "completed", ())
    pair.gm()
    assert pair.cluster.state == ("Train", "Waiting", "2")
    assert pair.cluster.refused == []
