"""The parts of a cluster that tests of GM and LC need: controllers, and a stand-in for kubelets."""

import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program
from tools.harness.pods.kubelet.pod_plan import PodPlan
from tools.harness.pods.kubelet.stand_in import Kubelet
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Caller

pytestmark = pytest.mark.long

Json = dict[str, Any]
NODE = "edge-parts"
SAYS_HELLO = [sys.executable, "-c", "import os; print('hello', os.environ['WHERE'])"]
FAILS = [sys.executable, "-c", "print('again'); raise SystemExit(1)"]


@pytest.fixture(scope="module")
def controllers(control_plane: ControlPlane) -> Iterator[ControllerManager]:
    require_program("kube-controller-manager")
    with ControllerManager(control_plane) as manager:
        yield manager


def pod(name: str, command: list[str], **spec: Any) -> Json:
    container = {"name": "w", "image": "w", "command": command}
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [container], **spec},
    }


def plan_of(found: Json) -> PodPlan:
    return PodPlan(is_process=bool(found["spec"]["containers"][0].get("command")))


def kubelet_of(plane: ControlPlane, plan_of: Callable[[Json], PodPlan] = plan_of) -> Kubelet:
    caller = Caller(plane.server, context=plane.tls())
    return Kubelet(caller, [NODE], logs=plane.folder / "pod-logs", plan_of=plan_of)


class Pods:
    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._admin = plane.admin
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, body: Json) -> None:
        status, answer = self._admin.post(self.path, body)
        assert status == HTTPStatus.CREATED, answer

    def phases(self) -> dict[str, str]:
        items = self._admin.get(self.path)[1]["items"]
        return {each["metadata"]["name"]: each["status"]["phase"] for each in items}


def test_a_deployment_becomes_pods_that_run_and_all_goes_with_it(
    control_plane: ControlPlane, controllers: ControllerManager, namespace: str
) -> None:
    pods = Pods(control_plane, namespace)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    labels = {"app": "d"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "w", "image": "w"}]},
    }
    body = {
        "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    with kubelet_of(control_plane):
        assert control_plane.admin.post(path, body)[0] == HTTPStatus.CREATED

        def available() -> int:
            controllers.check_running()
            status: Json = control_plane.admin.get(f"{path}/d")[1]["status"]
            return int(status.get("availableReplicas", 0))

        wait_for(lambda: available() == 2, timeout=60, what="two available replicas")
        assert sorted(pods.phases().values()) == ["Running", "Running"]
        control_plane.admin.delete(f"{path}/d", {"propagationPolicy": "Background"})
        wait_for(lambda: pods.phases() == {}, timeout=60, what="the end of its pods")


def test_a_pods_command_runs_with_its_mounts_and_its_end_is_the_pods(
    control_plane: ControlPlane, namespace: str
) -> None:
    pods = Pods(control_plane, namespace)
    seen = pod("seen", SAYS_HELLO, volumes=[{"name": "v", "hostPath": {"path": "/srv/data"}}])
    container = seen["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "v", "mountPath": "/home/data/srv/data"}]
    container["env"] = [{"name": "WHERE", "value": "/home/data/srv/data/a.txt;/other"}]
    with kubelet_of(control_plane) as kubelet:
        pods.create(seen)
        pods.create(pod("fails", FAILS))
        pods.create(pod("retries", FAILS, restartPolicy="OnFailure"))
        ends = {"seen": "Succeeded", "fails": "Failed", "retries": "Running"}
        wait_for(lambda: pods.phases() == ends, timeout=30, what="the ends")
        assert kubelet.log_of("seen") == "hello /srv/data/a.txt;/other\n"
        wait_for(lambda: kubelet.log_of("retries").count("again") > 1, timeout=30, what="a retry")


def test_what_happened_while_a_node_was_cut_is_told_when_it_is_healed(
    control_plane: ControlPlane, namespace: str
) -> None:
    pods = Pods(control_plane, namespace)
    with kubelet_of(control_plane, lambda pod: PodPlan(runs_for=3.0)) as kubelet:
        pods.create(pod("p", []))
        wait_for(lambda: pods.phases() == {"p": "Running"}, timeout=30, what="the pod to run")
        kubelet.cut(NODE)
        pods.create(pod("later", []))
        wait_for(lambda: kubelet.phase_of("p") == "Succeeded", timeout=30, what="its end")
        assert pods.phases() == {"p": "Running", "later": "Pending"}
        kubelet.heal(NODE)
        wait_for(
            lambda: pods.phases() == {"p": "Succeeded", "later": "Succeeded"},
            timeout=30,
            what="the phases",
        )
