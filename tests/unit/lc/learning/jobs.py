"""Jobs as the API has them, with as little as each test needs."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from lc.core.learning.job import Dataset, Job, Model
from lc.core.learning.next_command import JobInputs
from lc.core.learning.samples import Segment

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
NODE = "edge-a"
DATASET = Dataset("/srv/d/train.txt", "txt", NODE)
BASE = Model("pb", "/srv/m/base.pb")
PROD = Model("pb", "/srv/m/prod.pb")
MODELS = {"base": BASE, "prod": PROD}


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def condition(
    stage: str, kind: str, number: int | None = 1, *, data: object = None
) -> dict[str, Any]:
    found: dict[str, Any] = {"stage": stage, "type": kind, "status": "True"}
    if number is not None:
        found["round"] = number
    if data is not None:
        found["data"] = json.dumps(data)
    return found


def output(*models: dict[str, Any]) -> dict[str, Any]:
    return {"output": {"models": list(models)}}


def document(
    *conditions: dict[str, Any],
    kind: str = "incrementallearningjob",
    train: dict[str, Any] | None = None,
    deploy: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """`train`, `deploy`: triggers; `spec`: instead of what stands here."""
    more = {"condition": {"operator": ">=", "threshold": 4, "metric": "num_of_samples"}}
    better = {"condition": {"operator": ">", "threshold": 0.1, "metric": "precision_delta"}}
    template = {"spec": {"nodeName": NODE}}
    return {
        "kind": kind,
        "metadata": {
            "namespace": "shop",
            "name": "il1",
            "uid": "u1",
            "annotations": annotations or {},
        },
        "spec": {
            "dataset": {"name": "d1", "trainProb": 0.8},
            "initialModel": {"name": "base"},
            "trainSpec": {"template": template, "trigger": more if train is None else train},
            "evalSpec": {"template": template},
            "deploySpec": {
                "template": template,
                "model": {"name": "prod"},
                "trigger": better if deploy is None else deploy,
            },
            "outputDir": "/srv/out",
            **spec,
        },
        "status": {"conditions": list(conditions)},
    }


def job(*conditions: dict[str, Any], **given: Any) -> Job:
    kind = given.get("kind", "incrementallearningjob")
    return Job.parse(kind, document(*conditions, **given))


def known(dataset: Dataset | None = DATASET, *, node: str = NODE, **models: Model) -> JobInputs:
    return JobInputs(node, dataset, MODELS | models)


def samples(count: int, name: str = "1.train.samples", header: str = "") -> Segment:
    return Segment(name, count, count * 10, header)
