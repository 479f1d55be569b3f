"""`kubectl elector switchover`, `hold` and `resume` upon running electors, as an operator."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import Observer, wait_for_leader
from tools.harness.processes.command import run

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

    def ctl(self, *words: str) -> CompletedProcess[str]:
        return run("ctl", *words, "--kubeconfig", str(self._kubeconfig))


@pytest.fixture
def operated(control_plane: ControlPlane, fleet: Fleet) -> Iterator[Operated]:
    kubeconfig = control_plane.kubeconfig_for(fleet.namespace, "operator", OPERATOR)
    with MainServer() as main:
        it = Operated(fleet, main, kubeconfig)
        with Observer(it.pods) as observer:
            yield it
    observer.assert_exclusive()


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
