"""A worker that reports before its LC knows the job, in both modes, over kill -9."""

import json
from collections.abc import Callable

import pytest

from edge_sidecars.sedna_api.core.kinds import FEDERATED_LEARNING_JOB, node_label
from lc.core.unknown_jobs import MAX_REPORTS
from tests.integration.gm.shop import Shop, template
from tests.integration.gm.test_reports import node_report
from tests.integration.lc.edge import Cloud, Edge
from tests.integration.lc.stocked import CUT_OFF
from tests.integration.lc.test_worker_api import FROM_JOB
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.sedna_kinds import install
from tools.harness.pods.gm import GmPod
from tools.harness.pods.lc import LcProcess

ROUNDS = 3
SPEC = {
    "aggregationWorker": {"model": {"name": "base"}, "template": template("cloud-1")},
    "trainingWorkers": [{"dataset": {"name": "d1"}, "template": template("edge-a")}],
    "transmitter": {"ws": {}},
}


@pytest.fixture
def shop(control_plane: ControlPlane, namespace: str) -> Shop:
    """A fresh namespace of an API server that has Sedna's kinds."""
    install(control_plane)
    return Shop(control_plane, namespace)


def say(lc: LcProcess, worker: str, round_: int, **more: object) -> int:
    told = FROM_JOB | {"ownerInfo": {"currentRound": round_}} | more
    answer = lc.report(worker, told)
    assert answer is not None
    return answer.status


def kept(lc: LcProcess) -> int:
    found: int = lc.status()["reports"]["ofUnknownJobs"]
    return found


def early(lc: LcProcess, namespace: str) -> None:
    """Reports of two workers, with a kill -9 between them."""
    for round_ in range(1, ROUNDS + 1):
        assert say(lc, "job-train-0", round_, namespace=namespace) == 200
    lc.kill()
    lc.start()
    assert kept(lc) == ROUNDS
    assert say(lc, "job-train-1", 1, namespace=namespace) == 200


def arrive(lc: LcProcess, bodies: Callable[[], list[dict[str, object]]]) -> None:
    lc.until(lambda _: len(bodies()) == 2)
    # The newest word of each worker.
    assert [it["output"]["ownerInfo"]["currentRound"] for it in bodies()] == [ROUNDS, 1]  # type: ignore[index]
    assert kept(lc) == 0


def test_early_reports_arrive_by_stream_once_the_job_is_known(
    control_plane: ControlPlane, shop: Shop
) -> None:
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        flags = [f"--gm-address=127.0.0.1:{pod.gm.stream_port}", "--redial-cap=1s"]
        with LcProcess(flags, node="edge-a") as lc:
            lc.until(lambda it: it["link"]["isUp"])
            early(lc, shop.namespace)
            job = shop.create("fl", "job", SPEC)

            def stored() -> list[str]:
                found = node_report(shop, "edge-a").get("entries", [])
                return [it["name"] for it in found if it["uid"] == job["metadata"]["uid"]]

            lc.until(lambda it: kept(lc) == 0 and it["reports"]["waiting"] == 0)
            assert stored() == ["job"]


def test_early_reports_arrive_through_the_relay_once_the_job_is_known(
    control_plane: ControlPlane, shop: Shop
) -> None:
    cloud = Cloud(control_plane, shop.namespace)
    with Edge(control_plane, node="edge-a", namespace=shop.namespace) as edge:
        lc = edge.lc
        early(lc, shop.namespace)
        labels = {node_label("edge-a"): ""}
        job = cloud.create(FEDERATED_LEARNING_JOB, "job", SPEC, labels=labels)
        arrive(lc, lambda: cloud.bodies("edge-a", job["metadata"]["uid"]))


@pytest.mark.slow
def test_invented_jobs_fill_what_there_is_and_no_more() -> None:
    with LcProcess(CUT_OFF) as lc:
        lc.wait_ready()
        for index in range(MAX_REPORTS + 10):
            assert say(lc, "w", 1, ownerName=f"job{index}") == 200
        assert kept(lc) == MAX_REPORTS
        metrics = lc.ask("/metrics").body.decode()
        assert 'lc_reports_of_unknown_jobs_dropped_total{reason="full"} 10' in metrics
        assert json.loads(lc.ask("/status").body)["reports"]["waiting"] == 0
