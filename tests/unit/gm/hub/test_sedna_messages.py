"""What is said to Sedna's own LCs, and what they say."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.messages import Ack, Delete, Put, SnapshotEnd
from gm.hub.core.sedna_messages import (
    DELETE,
    INSERT,
    NodeRef,
    NotASednaMessage,
    Translator,
    operation,
)

NODE = "edge-a"


def document(kind: str, name: str, **more: Any) -> Document:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"}
    metadata |= more.pop("metadata", {})
    tree = {"apiVersion": "sedna.io/v1alpha1", "kind": "Wrong", "metadata": metadata, **more}
    return Document.parse(json.dumps(tree).encode(), kind)


def job(stage: str, state: str, **nodes: str) -> Document:
    """An incremental job of dataset d1, with the nodes on which stages ran."""
    annotations = {f"sedna.io/{name}": node for name, node in nodes.items()}
    return document(
        "incrementallearningjob",
        "il1",
        metadata={"annotations": annotations},
        spec={"dataset": {"name": "d1"}},
        status={"conditions": [{"stage": stage, "type": state, "round": 4}]},
    )


def decoded(frame: str | None) -> dict[str, Any]:
    assert frame is not None
    message: dict[str, Any] = json.loads(frame)
    message["content"] = json.loads(base64.b64decode(message["content"]))
    return message


def status(kind: str, name: str, content: object, *, verb: str = "status") -> str:
    header = {"namespace": "shop", "resourceKind": kind, "resourceName": name, "operation": verb}
    data = base64.b64encode(json.dumps(content).encode()).decode()
    return json.dumps({"header": header, "content": data})


@pytest.fixture
def translator() -> Translator:
    return Translator(NODE, "sedna-1")


def test_an_object_is_inserted_whole_with_its_kind_and_without_a_version_of_the_api(
    translator: Translator,
) -> None:
    message = decoded(translator.down(Put(document("dataset", "d1", spec={"url": "/d.txt"}))))
    assert message["header"] == {
        "namespace": "shop",
        "resourceKind": "dataset",
        "resourceName": "d1",
        "operation": "insert",
    }
    assert message["content"]["kind"] == "Dataset"
    assert "apiVersion" not in message["content"]
    assert message["content"]["spec"] == {"url": "/d.txt"}


def test_a_change_is_an_insert_again(translator: Translator) -> None:
    for _ in range(2):
        frame = translator.down(Put(document("jointinferenceservice", "ji")))
        assert decoded(frame)["header"]["operation"] == INSERT


def test_a_deletion_carries_the_last_object_and_is_said_once(translator: Translator) -> None:
    gone = Delete("dataset", "shop", "d1", "uid-d1", 8)
    assert translator.down(gone) is None
    translator.down(Put(document("dataset", "d1", spec={"url": "/d.txt"})))
    message = decoded(translator.down(gone))
    assert message["header"]["operation"] == DELETE
    assert message["content"]["spec"] == {"url": "/d.txt"}
    assert translator.down(gone) is None


@pytest.mark.parametrize("kind", ["featureextractionservice", "videoanalyticsjob", "reidjob"])
def test_kinds_that_sednas_lc_has_no_manager_for_are_not_said(
    translator: Translator, kind: str
) -> None:
    assert translator.down(Put(document(kind, "x"))) is None


def test_what_only_our_lcs_understand_is_not_said(translator: Translator) -> None:
    assert translator.down(SnapshotEnd()) is None
    assert translator.down(Ack("sedna-1", "uid-d1", 1)) is None


@pytest.mark.parametrize(
    ("stage", "state", "here", "expected"),
    [
        ("Train", "Waiting", {"dataset"}, INSERT),
        ("Train", "Waiting", {"Train"}, None),
        ("Train", "Ready", {"dataset", "Train"}, None),
        ("Train", "Starting", {"dataset", "Train"}, None),
        ("Train", "Running", {"Train"}, INSERT),
        ("Train", "Running", {"dataset"}, None),
        ("Train", "Completed", {"Train"}, DELETE),
        ("Train", "Completed", {"Train", "dataset"}, None),
        ("Train", "Completed", {"Train", "Deploy"}, None),
        ("Train", "Completed", {"dataset"}, None),
        ("Eval", "Failed", {"Eval"}, DELETE),
        ("Eval", "Waiting", {"dataset"}, INSERT),
        ("Deploy", "Waiting", {"Eval"}, INSERT),
        ("Deploy", "Waiting", {"dataset"}, None),
        ("Deploy", "Running", {"Deploy"}, INSERT),
    ],
)
def test_a_job_of_stages_is_where_its_stage_is(
    stage: str, state: str, here: set[str], expected: str | None
) -> None:
    nodes = {name: NODE if name in here else "edge-z" for name in ("Train", "Eval", "Deploy")}

    def is_here(place: NodeRef) -> bool:
        return "dataset" in here if place.dataset is not None else place.node == NODE

    tree = job(stage, state, **nodes).json()
    assert operation(tree, kind="incrementallearningjob", is_here=is_here) == expected


def test_a_lifelong_job_waits_for_its_deployment_where_its_dataset_is() -> None:
    tree = job("Deploy", "Waiting", Eval="edge-z").json()

    def is_here(place: NodeRef) -> bool:
        return place.dataset is not None

    assert operation(tree, kind="lifelonglearningjob", is_here=is_here) == INSERT


def test_a_job_that_leaves_and_comes_back_is_deleted_and_inserted(translator: Translator) -> None:
    frames = [
        translator.down(Put(job("Train", state, Train=NODE)))
        for state in ("Waiting", "Running", "Running", "Completed", "Completed", "Running")
    ]
    said = [frame and decoded(frame)["header"]["operation"] for frame in frames]
    assert said == [None, INSERT, INSERT, DELETE, None, INSERT]


def test_the_first_frame_and_foreign_operations_report_nothing(translator: Translator) -> None:
    bare = '{"namespace":"","resourceKind":"","resourceName":"","operation":""}'
    assert translator.up(bare) is None
    assert translator.up(status("dataset", "d1", {}, verb="keepalive")) is None


def test_a_count_is_a_report_without_a_number_also_of_what_was_never_sent(
    translator: Translator,
) -> None:
    said = translator.up(status("Dataset", "d1", {"numberOfSamples": 412}))
    assert said is not None
    assert (said.report.uid, said.report.namespace, said.report.name) == ("", "shop", "d1")
    report = said.about(document("dataset", "d1"))
    assert (report.seq, report.uid, report.kind) == (0, "uid-d1", "dataset")
    assert not report.is_event
    assert json.loads(report.body) == {"numberOfSamples": 412}


@pytest.mark.parametrize(
    ("content", "round_"),
    [
        ({"phase": "train", "status": "completed"}, 4),
        ({"phase": "Train", "status": "Ready", "input": {"outputDir": "/o/train/9"}}, 4),
        ({"phase": "Eval", "status": "Ready", "input": {"outputDir": "/o/eval/9"}}, 9),
        ({"phase": "Eval", "status": "Ready", "input": {"outputDir": "/o/other"}}, None),
    ],
)
def test_a_stage_is_an_event_of_the_round_that_its_job_is_in(
    translator: Translator, content: dict[str, Any], round_: int | None
) -> None:
    said = translator.up(status("incrementallearningjob", "il1", content))
    assert said is not None
    report = said.about(job("Train", "Waiting"))
    assert report.is_event
    assert json.loads(report.body).get("round") == round_


def test_that_a_stage_runs_gm_sees_by_itself(translator: Translator) -> None:
    content = {"phase": "train", "status": "running"}
    assert translator.up(status("incrementallearningjob", "il1", content)) is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        status("reidjob", "r1", {}),
        status("pod", "d1", {}),
        status("dataset", "d1", [1]),
        '{"header":{"operation":"status","resourceKind":"dataset"},"content":"!"}',
        '{"header":{"operation":"status","resourceKind":"dataset"},"content":null}',
        '{"header":{"operation":"status","resourceKind":"dataset"},"content":7}',
        '{"header":{"operation":"status","resourceKind":"dataset"},"content":"/w=="}',
    ],
)
def test_what_no_lc_of_sedna_says_is_refused(translator: Translator, text: str) -> None:
    with pytest.raises(NotASednaMessage):
        translator.up(text)
