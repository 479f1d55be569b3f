"""gm as a process: endpoints, `gm status`, what it refuses to run with."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gm.controller.crd_check import PATH
from tests.integration.gm.node_stream import NodeStream
from tests.integration.gm.shop import Shop
from tests.unit.gm.test_crd_check import openapi
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.sedna_kinds import install
from tools.harness.pods.gm import GmPod, GmProcess
from tools.harness.pods.wire.raw_server import Connection, RawServer


@contextmanager
def closing_pod(pod: GmPod) -> Iterator[GmPod]:
    """Not started yet."""
    try:
        yield pod
    finally:
        pod.stop()


# Bytes; the contract's bound of an idle GM.
IDLE = 100 * 1024 * 1024


def test_gm_status_tells_who_leads_who_is_connected_and_what_waits(
    control_plane: ControlPlane, shop: Shop
) -> None:
    shop.stock()
    shop.incremental("i1")
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        shop.wait_status("il", "i1", lambda it: it.get("conditions"))
        with NodeStream(pod.gm.stream_port, "edge-a") as node:
            node.wait(lambda it: it.messages, what="the snapshot")
            shop.wait(
                lambda: pod.gm.command("status").stdout,
                lambda it: "Train Waiting" in it and "edge-a" in it and "READY    yes" in it,
                what="the job and the node, of a GM that is ready",
            )
        done = pod.gm.command("status")
        assert done.returncode == 0
        assert "this one, term" in done.stdout
        told = json.loads(pod.gm.command("status", "--output", "json").stdout)
        assert told["leader"]["isLeader"]
        assert told["mode"] == "active-standby"


def test_gm_status_without_a_gm_says_what_to_do() -> None:
    process = GmProcess([])
    done = process.command("status")
    process.stop()
    assert done.returncode == 1
    assert "--url" in done.stderr
    assert process.command("status", "--url", "nonsense").returncode == 2


def test_the_endpoints_answer_and_others_do_not(control_plane: ControlPlane, shop: Shop) -> None:
    pod = GmPod(control_plane, shop.namespace)
    pod.gm.may_fork = False
    with pod:

        def status(path: str, method: str = "GET") -> int:
            answer = ask(pod.gm.port, path, method=method)
            assert answer is not None
            return answer.status

        assert status("/livez") == 200
        assert status("/readyz?lead=true") == 400
        assert status("/readyz?leader=maybe") == 400
        assert status("/metrics") == 200
        assert status("/status", "POST") == 405
        assert status("/drain") == 405
        assert status("/nothing") == 404
        assert "gm_leader" in pod.gm.metrics()
        # Before the first one: an alert that goes by increase() would miss it.
        assert 'gm_decisions_total{outcome="failed"} 0' in pod.gm.metrics()
        assert pod.gm.memory() < IDLE
        assert pod.gm.terminate() == 0


def test_g3_gm_refuses_to_run_where_applied_reports_would_be_forgotten() -> None:
    document = openapi(status={"properties": {"conditions": {"type": "array"}}})

    def serve(connection: Connection) -> None:
        while request := connection.request():
            is_asked = request.startswith(f"GET {PATH} ".encode())
            if is_asked:
                connection.answer(document)
            else:
                connection.answer(b'{"message":"none"}', status="404 Not Found")

    with RawServer(serve) as server:
        process = GmProcess(
            [f"--api={server.url}", "--elector=http://127.0.0.1:1", "--relay-status=off"]
        )
        try:
            assert process.start().wait() == 2
            assert "appliedReports" in process.log_text()
            assert "manifests/crds" in process.log_text()
        finally:
            process.stop()


@pytest.mark.long
@pytest.mark.slow
def test_gm_waits_for_its_crds_and_goes_on_when_they_come() -> None:
    """Beside a relay that has looked at the API before there were any."""
    with ControlPlane() as plane:
        namespace = plane.create_namespace()
        with closing_pod(GmPod(plane, namespace)) as pod:
            pod.start(wait=False)
            shop = Shop(plane, namespace)
            shop.wait(
                pod.gm.log_text, lambda it: "waiting for CRDs" in it, what="GM to say what it lacks"
            )
            pod.relay.wait_link(up=True)
            assert pod.gm.readyz() == 503
            install(plane)
            pod.wait_leading()
            pod.wait_ready()
            shop.stock()
            shop.federated("f1")
            shop.wait_status("fl", "f1", lambda it: it.get("phase") == "Running")
