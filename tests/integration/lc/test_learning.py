"""Learning on a node that is cut off: LC as a process, killed between all steps and within them."""

import random
import time

import pytest

from tests.integration.lc.learning_job import MODEL_IN, Node, stopped, until
from tests.unit.lc.learning.jobs import condition, output

TRAINED = {"format": "pb", "url": MODEL_IN}
BETTER = (
    {"format": "pb", "url": MODEL_IN, "metrics": {"precision": [0.9]}},
    {"format": "pb", "url": "/srv/m/prod.pb", "metrics": {"precision": [0.5]}},
)


def numbers(count: int, *, start: int = 0) -> list[str]:
    return [f"img/{number}.jpg {number % 3}" for number in range(start, start + count)]


@pytest.mark.slow
def test_a_round_goes_on_over_kills_while_nobody_is_reached() -> None:
    with Node() as node:
        node.add(*numbers(10))
        node.path("/srv/m").mkdir(parents=True)
        node.path("/srv/m/prod.pb").write_text("old")
        node.start()
        ready = node.said("Train", "Ready")
        assert ready["input"] == {
            "models": [{"format": "pb", "url": "/srv/m/base.pb"}],
            "dataURL": "/srv/out/data/train/1/data.txt",
            "outputDir": "/srv/out/train/1",
        }
        data = node.path("/srv/out/data/train/1/data.txt")
        assert data.read_text().split("\n") == [*numbers(8), ""]
        assert node.path("/srv/out/train/1").is_dir()

        node.goes_on(condition("Train", "Running", 1))
        assert node.worker("train", TRAINED) == 200
        node.path(MODEL_IN).write_text("new")
        done = node.said("Train", "Completed")
        assert done["output"]["models"] == [TRAINED]

        node.goes_on(
            condition("Train", "Completed", 1, data=output(TRAINED)),
            condition("Eval", "Waiting", 1),
        )
        judged = node.said("Eval", "Ready")
        assert [each["url"] for each in judged["input"]["models"]] == [MODEL_IN, "/srv/m/prod.pb"]
        assert node.path(judged["input"]["dataURL"]).read_text().split("\n") == [
            *numbers(2, start=8),
            "",
        ]

        node.goes_on(condition("Eval", "Running", 1))
        assert node.worker("eval", *BETTER) == 200
        node.said("Eval", "Completed")

        node.goes_on(
            condition("Eval", "Completed", 1, data=output(*BETTER)),
            condition("Deploy", "Waiting", 1),
        )
        deployed = node.said("Deploy", "Ready")
        assert deployed["message"] == "precision_delta=0.4 is > 0.1"
        # Sedna's LC copies it outside of the mounted root.
        assert node.path("/srv/m/prod.pb").read_text() == "new"

        node.goes_on(
            condition("Deploy", "Completed", 1),
            condition("Train", "Waiting", 2),
        )
        node.add(*numbers(10, start=10))
        again = node.said("Train", "Ready", number=2)
        assert again["input"]["models"] == [TRAINED]
        second = node.path("/srv/out/data/train/2/data.txt")
        assert second.read_text().split("\n") == [*numbers(8, start=10), ""]
        begun = [each for each in node.told() if each.get("status") == "Ready"]
        assert len(begun) == 4, "each stage was begun once"


def test_a_late_word_of_a_worker_is_answered_and_changes_nothing() -> None:
    with Node() as node:
        node.start()
        node.goes_on(condition("Train", "Failed", 1), condition("Train", "Waiting", 2))
        assert node.worker("train", TRAINED) == 200
        assert node.worker("train", TRAINED, status="running") == 200
        assert node.worker("train", {"format": 3, "url": "/x"}, name="il1-train-2-0") == 400
        assert node.told() == []


@pytest.mark.slow
def test_samples_survive_kills_at_any_moment() -> None:
    """The data grows while LC is killed again and again; each line is in one place at the end."""
    chance = random.Random(7)
    never = {
        "checkPeriodSeconds": 1,
        "condition": {"operator": ">=", "threshold": 4000, "metric": "num_of_samples"},
    }
    with Node(train=never) as node:
        count = 0
        for _ in range(6):
            node.lc.start()
            for _ in range(chance.randrange(1, 4)):
                node.add(*numbers(100, start=count))
                count += 100
                time.sleep(chance.uniform(0, 0.6))
            node.lc.kill()
        node.lc.start()
        node.add(*numbers(5000 - count, start=count))
        node.said("Train", "Ready")
        stopped(node.lc)
        train = node.path("/srv/out/data/train/1/data.txt").read_text().splitlines()
        assert len(train) == len(set(train)) == 4000
        node.goes_on(
            condition("Train", "Completed", 1, data=output(TRAINED)),
            condition("Eval", "Waiting", 1),
        )
        node.said("Eval", "Ready")
        judge = node.path("/srv/out/data/eval/1/data.txt").read_text().splitlines()
        assert len(judge) == len(set(judge)) == 1000
        assert {*train, *judge} == {*numbers(5000)}


@pytest.mark.slow
def test_what_cannot_be_done_is_told_and_done_when_it_can() -> None:
    with Node() as node:
        node.add(*numbers(10))
        node.path("/srv/out").write_text("a file is in the way")
        node.start()
        problem = node.until_told(lambda it: it.get("problem"))
        assert (problem["phase"], problem["round"]) == ("Train", 1)
        assert "/srv/out" in problem["problem"]
        node.path("/srv/out").unlink()
        node.said("Train", "Ready")
        assert not [each for each in node.told() if each.get("problem")], "it is over"


def test_data_that_cannot_be_read_holds_up_no_later_stage() -> None:
    with Node() as node:
        node.goes_on(
            condition("Train", "Completed", 1, data=output(TRAINED)),
            condition("Eval", "Waiting", 1),
        )
        node.said("Eval", "Ready")
        until(lambda: "No such file" in node.lc.notes()["incrementallearningjob il1"])


def test_a_job_that_cannot_be_read_stops_nothing() -> None:
    bad = {"condition": {"operator": "~", "threshold": 1, "metric": "n"}}
    with Node(train=bad) as node:
        node.start()
        until(lambda: "operator" in node.lc.notes()["incrementallearningjob il1"])
        assert node.worker("train", TRAINED) == 400
        assert node.lc.status()["store"]["id"]
