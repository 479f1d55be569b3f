"""No object and no report ends a GM, or keeps others waiting."""

from typing import Any

from tests.integration.gm.shop import Shop, template
from tools.harness.pods.gm import GmPod


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


def test_an_object_that_is_nested_deep_concerns_no_other(shop: Shop) -> None:
    """A quantity is one of the few fields that may hold anything."""
    shop.model("base")
    shop.dataset("d1")
    for levels in (300, 420, 600, 900):
        worker = template("edge-a")
        worker["spec"]["containers"][0]["resources"] = {"limits": {"cpu": nested(levels)}}
        spec = {
            "aggregationWorker": {"model": {"name": "base"}, "template": template("cloud-1")},
            "trainingWorkers": [{"dataset": {"name": "d1"}, "template": worker}],
            "transmitter": {"ws": {}},
        }
        shop.create("fl", f"deep-{levels}", spec)
    with GmPod(shop.plane, shop.namespace) as pod:
        shop.federated("good")
        shop.wait(lambda: shop.pod_names("good"), lambda it: len(it) == 2, what="pods of good")
        pod.kill()
        pod.restart()
        shop.federated("later")
        shop.wait(lambda: shop.pod_names("later"), lambda it: len(it) == 2, what="pods of later")
        assert "RecursionError" not in pod.gm.log_text()
