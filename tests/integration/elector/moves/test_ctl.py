"""`kubectl elector switchover`, `hold` and `resume` upon running electors, as an operator."""

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader
from tools.harness.processes.command import run
from tools.harness.processes.faketime import faketime_library

OPERATOR = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "update"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]


def show_pod(plane: ApiServer, namespace: str, name: str, *, phase: str = "Running") -> None:
    """The pod of an elector as kubelet would have it."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    container = {
        "name": "elector",
        "image": "elector",
        "args": ["--lease=controller"],
    }
    spec = {"containers": [container], "automountServiceAccountToken": False}
    body = {"metadata": {"name": name}, "spec": spec}
    status, answer = plane.admin.post(path, body)
    assert status == 201, answer
    status, answer = plane.admin.patch(f"{path}/{name}/status", {"status": {"phase": phase}})
    assert status == 200, answer


class Operated:
    def __init__(self, fleet: Fleet, main: MainServer, kubeconfig: Path) -> None:
        self.fleet = fleet
        self._kubeconfig = kubeconfig
        fleet.create_empty_lease()
        drain = ("--drain-url", f"{main.url}/drain")
        self.pods = [fleet.add(*drain, timing=STEADY) for _ in range(2)]
        for pod in self.pods:
            show_pod(fleet.plane, fleet.namespace, pod.name)
        self.leader: ElectorPod = wait_for_leader(self.pods, timeout=20)
        self.standby = next(it for it in self.pods if it is not self.leader)

    def ctl(self, *words: str, environ: Mapping[str, str] | None = None) -> CompletedProcess[str]:
        return run("ctl", *words, "--kubeconfig", str(self._kubeconfig), environ=environ)

    def held_for(self) -> float:
        """Seconds that the hold on the Lease still lasts."""
        lease = self.fleet.get_lease()
        assert lease is not None
        asked = json.loads(lease["metadata"]["annotations"]["edge-sidecars.io/hold"])
        until = rfc3339.parse(asked["until"])
        assert until is not None
        return until.timestamp() - time.time()


@pytest.fixture
def operated(control_plane: ControlPlane, fleet: Fleet) -> Iterator[Operated]:
    kubeconfig = control_plane.kubeconfig_for(fleet.namespace, "operator", OPERATOR)
    with MainServer() as main:
        it = Operated(fleet, main, kubeconfig)
        with Observer(it.pods) as observer:
            yield it
    observer.assert_exclusive()


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, fleet: Fleet) -> Path:
    return control_plane.kubeconfig_for(fleet.namespace, "operator", OPERATOR)


def test_a_switchover_ends_when_the_named_pod_leads(operated: Operated) -> None:
    done = operated.ctl("switchover", "controller", "--to", operated.standby.name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{operated.standby.name} leads, after {operated.leader.name}\n"
    assert operated.standby.is_leader()


def test_a_switchover_to_no_candidate_changes_nothing(operated: Operated) -> None:
    version = operated.leader.leader()["fencingToken"]
    show_pod(operated.fleet.plane, operated.fleet.namespace, "pod-8", phase="Pending")
    for pod, why in (("pod-9", "no candidate"), ("pod-8", "Pending"), ("pod-0", "leads already")):
        to = operated.leader.name if pod == "pod-0" else pod
        done = operated.ctl("switchover", "controller", "--to", to)
        assert done.returncode == 1
        assert why in done.stderr
    assert operated.leader.leader()["fencingToken"] == version


def test_a_hold_ends_the_lead_and_resume_begins_another(operated: Operated) -> None:
    done = operated.ctl("hold", "controller", "--for", "10m")
    assert done.returncode == 0, done.stderr
    assert "no pod leads until 20" in done.stdout
    assert not any(it.is_leader() for it in operated.pods)
    done = operated.ctl("resume", "controller")
    assert done.returncode == 0, done.stderr
    assert any(it.is_leader() for it in operated.pods)
    done = operated.ctl("resume", "controller")
    assert (done.returncode, "there is no hold" in done.stderr) == (1, True)


@pytest.mark.parametrize("clock", ["-50m", "+3h"])
def test_the_clock_of_who_asks_does_not_count(operated: Operated, clock: str) -> None:
    environ = {
        "LD_PRELOAD": faketime_library(),
        "FAKETIME": clock,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    done = operated.ctl("switchover", "controller", environ=environ)
    assert done.returncode == 0, done.stderr
    done = operated.ctl("status", "controller", environ=environ)
    assert "   (over" not in done.stdout, "the leader is proven by the API server's clock"
    done = operated.ctl("hold", "controller", "--for", "20m", environ=environ)
    assert done.returncode == 0, done.stderr
    assert not any(it.is_leader() for it in operated.pods)
    assert 900 < operated.held_for() < 1205
    done = operated.ctl("resume", "controller", environ=environ)
    assert done.returncode == 0, done.stderr
    assert any(it.is_leader() for it in operated.pods)


def test_a_hold_that_is_taken_off_meanwhile_is_no_hold(fleet: Fleet, kubeconfig: Path) -> None:
    """The holder is silent, so that the command waits for its claim to end."""
    fleet.create_empty_lease()
    mark = {"annotations": {"edge-sidecars.io/holder": "pod-7_1"}}
    fleet.edit(spec={"holderIdentity": "pod-7_1", "leaseDurationSeconds": 600}, metadata=mark)
    with ThreadPoolExecutor() as threads:
        words = ("ctl", "hold", "controller", "--kubeconfig", str(kubeconfig))
        holding = threads.submit(run, *words)
        is_held = partial(_has_hold, fleet)
        wait_for(is_held, timeout=20, what="the hold")
        fleet.edit(metadata={"annotations": {"edge-sidecars.io/hold": None}})
        done = holding.result()
        assert (done.returncode, "the hold was taken off" in done.stderr) == (1, True), done.stderr
        holding = threads.submit(run, *words)
        wait_for(is_held, timeout=20, what="the hold")
        fleet.delete_lease()
        done = holding.result()
    assert done.returncode == 1
    assert "404 NotFound" in done.stderr


def _has_hold(fleet: Fleet) -> bool:
    lease = fleet.get_lease()
    return lease is not None and "edge-sidecars.io/hold" in lease["metadata"]["annotations"]


def test_a_claim_of_before_the_hold_is_no_leader_after_it(fleet: Fleet, kubeconfig: Path) -> None:
    """Whoever holds the Lease is dead, whatever its times say."""
    fleet.create_empty_lease()
    annotations = {
        "edge-sidecars.io/holder": "pod-7_1",
        "edge-sidecars.io/hold": '{"id":"a","until":"2100-01-01T00:00:00Z"}',
    }
    spec = {
        "holderIdentity": "pod-7_1",
        "leaseDurationSeconds": 600,
        "renewTime": "2099-01-01T00:00:00.000000Z",
    }
    fleet.edit(spec=spec, metadata={"annotations": annotations})
    flags = ("--timeout", "1s", "--kubeconfig", str(kubeconfig))
    done = run("ctl", "resume", "controller", *flags)
    assert done.returncode == 1
    assert "the hold is off, and no pod leads" in done.stderr


def test_a_holder_that_is_no_elector_is_named(fleet: Fleet, control_plane: ControlPlane) -> None:
    fleet.create_empty_lease()
    fleet.edit(spec={"holderIdentity": "peer_1", "leaseDurationSeconds": 15})
    kubeconfig = control_plane.kubeconfig_for(fleet.namespace, "operator", OPERATOR)
    flags = ("--kubeconfig", str(kubeconfig))
    done = run("ctl", "hold", "controller", *flags)
    assert done.returncode == 1
    assert "peer_1 leads on: it is no elector" in done.stderr
    done = run("ctl", "switchover", "controller", *flags)
    assert done.returncode == 1
    assert "is no elector" in done.stderr


def test_a_missing_right_is_named(control_plane: ControlPlane, fleet: Fleet) -> None:
    fleet.create_empty_lease()
    readers = [{**OPERATOR[0], "verbs": ["get"]}]
    kubeconfig = control_plane.kubeconfig_for(fleet.namespace, "reader", readers)
    done = run("ctl", "hold", "controller", "--kubeconfig", str(kubeconfig))
    assert done.returncode == 1
    assert "may not be written" in done.stderr
    assert 'verbs: ["update"]' in done.stderr
