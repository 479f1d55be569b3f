"""P11 on a real kubelet: the image of a running elector is replaced in place, and its pod leads on.

Each main acts as the manual says: while CLOCK_BOOTTIME is before the validUntil of the newest
document that it read. What it prints shows afterwards whether two acted at once.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import docker
import pytest

from tests.unit.manifests.built import Json, write_kustomization
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import NAMESPACE, PLAIN
from tools.images.__main__ import build_all, release

IMAGE = "lab.example/elector"
TAGS = ("a", "b")
ELECTIONS = ("one", "two", "three", "four")
# A pod resumes once in so many seconds; with what a busy machine takes for the rest.
BETWEEN = 75.0
MAIN = """
import http.client, json, time
def now(): return time.clock_gettime(time.CLOCK_BOOTTIME)
while True:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", 4040, timeout=3)
        connection.request("GET", "/leader?watch=true")
        for line in connection.getresponse():
            document = json.loads(line)
            print(now(), document["validUntil"] or 0 if document["isLeader"] else 0, flush=True)
    except (OSError, ValueError, http.client.HTTPException):
        time.sleep(0.05)
"""


@pytest.fixture
def elections(
    cluster: NodeCluster, docker_engine: docker.DockerClient, tmp_path: Path
) -> Iterator[None]:
    """Deployments of two pods each, with the elector of manifests/components; one of each leads."""
    built = docker_engine.images.get(
        build_all(docker_engine, tag=release(), components=["elector"])["elector"]
    )
    for tag in TAGS:
        built.tag(IMAGE, tag)
        archive = tmp_path / f"{tag}.tar"
        with archive.open("wb") as file:
            named = f"{IMAGE}:{tag}"
            file.writelines(docker_engine.images.get(named).save(named=named))
        cluster.nodes[PLAIN].load(archive)
    objects = [it for name in ELECTIONS for it in _election(name, tmp_path)]
    cluster.apply(objects)
    for name in ELECTIONS:
        cluster.rolled_out(NAMESPACE, f"deployment/{name}")
        cluster.until(partial(_holder, cluster, name), what=f"{name} has a leader")
    yield
    cluster.delete(objects)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "rounds",
    [pytest.param(1, marks=pytest.mark.long), pytest.param(5, marks=pytest.mark.manual)],
)
def test_p11_the_pod_leads_on_when_its_electors_image_is_replaced(
    cluster: NodeCluster, elections: None, rounds: int
) -> None:
    leaders = {name: _holder(cluster, name) for name in ELECTIONS}
    for number in range(rounds):
        began_at = time.monotonic()
        image = f"{IMAGE}:{TAGS[(number + 1) % len(TAGS)]}"
        with _holders(cluster) as seen:
            for pod in leaders.values():
                time.sleep(random.uniform(0, 3))
                spec = {"initContainers": [{"name": "elector", "image": image}]}
                patch = json.dumps({"spec": spec})
                cluster.kubectl.run("patch", "pod", pod, "--patch", patch).expect()
            for name, pod in leaders.items():
                begun = partial(_has_begun, cluster, name, terms=number + 2)
                cluster.until(begun, what=f"{pod} leads on")
        assert seen == set(leaders.items())
        if number < rounds - 1:
            time.sleep(max(began_at + BETWEEN - time.monotonic(), 0))
    for name, pod in leaders.items():
        acted = {it: _acted(cluster, it) for it in _pods(cluster, name)}
        mine = acted.pop(pod)
        assert mine
        assert not [span for spans in acted.values() for span in spans]
        least = min(before[1] - after[0] for before, after in pairwise(mine))
        print(f"{name}: the main's lead was proven for {least:.1f} s more at each document")
        assert least > 0


def _election(name: str, folder: Path) -> list[Json]:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    labels = {"app": name}
    main = {
        "name": "main",
        "image": f"{IMAGE}:{TAGS[0]}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", MAIN],
    }
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": name,
                    "nodeSelector": {"kubernetes.io/hostname": PLAIN},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [main],
                },
            },
        },
    }
    made = write_kustomization(folder / name, [deployment], components=["elector-sidecar"])
    objects = [account, *kustomize(made)]
    for it in objects:
        it["metadata"]["namespace"] = NAMESPACE
        if it["kind"] == "Deployment":
            (elector,) = it["spec"]["template"]["spec"]["initContainers"]
            elector |= {"image": f"{IMAGE}:{TAGS[0]}", "imagePullPolicy": "IfNotPresent"}
        for subject in it.get("subjects", ()):
            subject["namespace"] = NAMESPACE
    return objects


@contextmanager
def _holders(cluster: NodeCluster) -> Iterator[set[tuple[str, str]]]:
    """Who holds which Lease, looked at all the time until the block ends."""
    seen: set[tuple[str, str]] = set()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(0.02):
            seen.update((name, _holder(cluster, name)) for name in ELECTIONS)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def _spec(cluster: NodeCluster, name: str) -> Json:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}"
    spec: Json = cluster.plane.admin.get(path)[1]["spec"]
    return spec


def _holder(cluster: NodeCluster, name: str) -> str:
    """The pod's name; "" if no pod holds it."""
    return str(_spec(cluster, name).get("holderIdentity") or "").rpartition("_")[0]


def _has_begun(cluster: NodeCluster, name: str, *, terms: int) -> bool:
    return int(_spec(cluster, name).get("leaseTransitions", 0)) == terms


def _pods(cluster: NodeCluster, name: str) -> list[str]:
    listed = cluster.kubectl.run("get", "pods", f"--selector=app={name}", "-o", "name").expect()
    return [it.removeprefix("pod/") for it in listed.split()]


def _acted(cluster: NodeCluster, pod: str) -> list[tuple[float, float]]:
    """From when until when its main might act by each document, on CLOCK_BOOTTIME."""
    lines = cluster.kubectl.run("logs", pod, "--container=main").expect().splitlines()
    spans = [tuple(map(float, line.split())) for line in lines]
    return [(begin, end) for begin, end in spans if end > begin]
