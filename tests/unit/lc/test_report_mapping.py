"""What workers of services and federated jobs say to GM, byte for byte when it is the same."""

import json
from typing import Any

import pytest

from lc.core.worker_info import UnusableReport, WorkerInfo
from lc.workers.forwarder import FORWARDED, map_report


def said(owner_kind: str, **more: Any) -> WorkerInfo:
    told = {"name": "w1", "namespace": "shop", "ownerName": "o", "ownerKind": owner_kind, **more}
    return WorkerInfo.parse(told)


def test_a_federated_worker_tells_of_its_models_and_rounds() -> None:
    owner_info = {"currentRound": 3, "sampleCount": 640}
    models = [{"format": "ckpt", "url": "/m/1.ckpt", "metrics": {"acc": 0.8}}]
    info = said(
        "FederatedLearningJob",
        kind="Train",
        status="Running",
        ownerInfo=owner_info,
        results=models,
    )
    told = map_report(info)
    assert json.loads(told) == {
        "phase": "train",
        "status": "running",
        "output": {"models": models, "ownerInfo": owner_info},
    }


@pytest.mark.parametrize("kind", ["jointinferenceservice", "featureextractionservice"])
def test_a_service_s_worker_tells_of_its_counters(kind: str) -> None:
    """Sedna's reporter sends no status."""
    told = map_report(said(kind, kind="inference", ownerInfo={"inferenceNumber": 90}))
    assert json.loads(told) == {
        "phase": "inference",
        "output": {"ownerInfo": {"inferenceNumber": 90}},
    }
    assert json.loads(map_report(said(kind)))["output"] == {"ownerInfo": {}}


def test_the_same_fact_is_the_same_bytes() -> None:
    one = said("federatedlearningjob", ownerInfo={"a": 1, "b": 2})
    other = said("federatedlearningjob", ownerInfo={"b": 2, "a": 1})
    assert map_report(one) == map_report(other)


def test_what_gm_could_not_take_is_refused() -> None:
    with pytest.raises(UnusableReport, match="at most 65536"):
        map_report(said("federatedlearningjob", ownerInfo={"a": "x" * 70000}))


def test_these_kinds_are_forwarded() -> None:
    assert {
        "federatedlearningjob",
        "jointinferenceservice",
        "featureextractionservice",
    } == FORWARDED


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([], "not an object"),
        ({"name": 3}, "name is not a text"),
        ({"ownerInfo": []}, "ownerInfo is not an object"),
        ({"results": {}}, "results is not a list"),
        ({"results": ["m"]}, "results is not a list"),
    ],
)
def test_words_of_another_shape_are_refused_with_the_reason(told: object, why: str) -> None:
    with pytest.raises(UnusableReport, match=why):
        WorkerInfo.parse(told)


def test_nulls_are_nothing() -> None:
    """Sedna's library sends them."""
    told = {"name": "w", "ownerInfo": None, "results": None, "status": None}
    assert WorkerInfo.parse(told) == WorkerInfo(
        name="w", namespace="", owner_name="", owner_kind=""
    )
