"""A report counts only from the worker that it names."""

import json
from collections.abc import Iterator

import pytest

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.capability import WORKER_KEY, capability, key_for
from edge_sidecars.sedna_api.core.kinds import FEDERATED_LEARNING_JOB
from tests.integration.lc.stocked import CUT_OFF, change, stocked, waiting
from tools.harness.pods.lc import LcProcess

KEY, OTHER_KEY = "0f" * 16, "f0" * 16
GUARDED = ["--trust-any-worker=false"]


def job(name: str, key: str | None = KEY, *, of: str = "", version: int = 1) -> Document:
    uid = f"uid-{name}"
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid,
        "resourceVersion": str(version),
        "annotations": {} if key is None else {WORKER_KEY: key_for(of or uid, key)},
    }
    return Document.parse(
        json.dumps({"metadata": metadata, "spec": {}}).encode(), FEDERATED_LEARNING_JOB.singular
    )


def below(job: str, worker: str, *, key: str = KEY, node: str = "") -> str:
    return f"/w/{capability(key, uid=f'uid-{job}', worker=worker, node=node)}"


def said(lc: LcProcess, job: str, worker: str, path: str, **told: object) -> int:
    owner = {"namespace": "shop", "ownerName": job, "ownerKind": "federatedlearningjob"}
    body = {**owner, "kind": "train", "status": "running", "ownerInfo": {"worker": worker}}
    answer = lc.report(worker, {**body, **told}, below=path)
    assert answer is not None
    assert answer.json()["Status"] == answer.status
    return answer.status


@pytest.fixture(scope="module")
def lc() -> Iterator[LcProcess]:
    known = [job("a"), job("b", OTHER_KEY), job("none", None), job("copied", KEY, of="uid-a")]
    with stocked(*known, flags=GUARDED) as it:
        yield it
        assert "Traceback" not in it.log_text()


@pytest.mark.parametrize("node", ["", "edge-a"])
def test_the_worker_that_has_it_is_heard(lc: LcProcess, node: str) -> None:
    worker = f"a-train-{node or 'anywhere'}"
    assert said(lc, "a", worker, below("a", worker, node=node)) == 200
    assert [it.name for it in waiting(lc) if it.worker == worker] == ["a"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("", 403),
        ("/w/x", 403),
        (below("a", "a-train-1"), 403),
        (below("b", "a-train-0"), 403),
        (below("b", "a-train-0", key=OTHER_KEY), 403),
        (below("a", "a-train-0", key=OTHER_KEY), 403),
        (below("a", "a-train-0", node="edge-b"), 403),
        (f"/w/x{below('a', 'a-train-0')}", 404),
        ("/w/", 404),
        (f"/w/{'x' * 200}", 404),
        ("/w/%C3%A9", 404),
    ],
)
def test_nobody_else_is(lc: LcProcess, path: str, status: int) -> None:
    before = len(waiting(lc))
    assert lc_status(lc, path) == status
    assert len(waiting(lc)) == before


def lc_status(lc: LcProcess, path: str) -> int:
    body = {"namespace": "shop", "ownerName": "a", "ownerKind": "federatedlearningjob"}
    answer = lc.report("a-train-0", {**body, "kind": "train", "status": "running"}, below=path)
    assert answer is not None
    return answer.status


@pytest.mark.parametrize("name", ["none", "copied"])
def test_without_a_key_of_its_own_a_job_is_waited_for(lc: LcProcess, name: str) -> None:
    """That of another object counts for none."""
    assert said(lc, name, "w", below(name, "w")) == 503
    assert said(lc, name, "w", "") == 403


def test_kinds_that_lc_does_nothing_for_need_one_too(lc: LcProcess) -> None:
    kind = {"ownerKind": "videoanalyticsjob"}
    assert said(lc, "v", "w", "", **kind) == 403
    assert said(lc, "v", "w", "/w/any", **kind) == 200


def test_what_was_kept_of_an_unknown_job_counts_if_its_worker_had_said_it() -> None:
    lc = LcProcess([*CUT_OFF, *GUARDED])
    with lc:
        lc.wait_ready()
        assert said(lc, "a", "a-train-0", below("a", "a-train-0")) == 200
        assert said(lc, "a", "a-train-1", below("a", "a-train-0")) == 200
        assert said(lc, "a", "a-train-2", "") == 403
        lc.kill()
        change(lc, job("a"))
        lc.start()
        lc.until(lambda status: status["reports"]["ofUnknownJobs"] == 0)
        assert [it.worker for it in waiting(lc)] == ["a-train-0"]
        assert 'dropped_total{reason="unfit"} 1' in lc.metrics()


def test_an_lc_that_trusts_any_worker_takes_reports_of_pods_without_one() -> None:
    with stocked(job("a"), flags=["--trust-any-worker"]) as lc:
        assert said(lc, "a", "a-train-0", "") == 200
        assert said(lc, "a", "a-train-0", below("a", "a-train-1")) == 403
