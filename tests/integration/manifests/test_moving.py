"""Upgrades and moves that docs/how-to/ says to type work.

On a control plane of their own with the real controllers, and no node: pods come and go, none runs.
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from edge_sidecars.runtime.version import VERSION
from edge_sidecars.sedna_api.core.kinds import DATASET, FEDERATED_LEARNING_JOB
from gm.config.config import load as load_gm
from tests.integration.lib.sedna_api.definitions import create, definitions, sample
from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.typist import Typist
from tests.unit.manifests.built import workload
from tests.unit.repository.checkout import ROOT, blocks
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program
from tools.images import OWN_IMAGES

Json = dict[str, Any]
pytestmark = [pytest.mark.long, pytest.mark.slow]

SEDNA = "/apis/apps/v1/namespaces/sedna"
CORE = "/api/v1/namespaces/sedna"
SHOP = "/apis/apps/v1/namespaces/default/deployments/shop"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    for name in ("kube-apiserver", "etcd", "kube-controller-manager"):
        require_program(name)
    # What can be undone of a DaemonSet; who pods are if nobody says.
    more = ("daemonset-controller", "serviceaccount-controller")
    with ControlPlane() as plane, ControllerManager(plane, more=more):
        yield plane


def _write(folder: Path, name: str, *objects: Json) -> None:
    (folder / name).write_text(yaml.safe_dump_all(objects), encoding="utf-8")


def _image(plane: ControlPlane, path: str) -> str:
    spec = expect(plane.admin.get(path))["spec"]["template"]["spec"]
    return str(spec["containers"][0]["image"])


# ── from Sedna ──


def _of_sedna() -> Iterator[Json]:
    """What Sedna's installation leaves, as far as ours meets it."""
    labels = {"sedna": "gm"}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sedna"}}
    yield _in_sedna({**workload(), "spec": {**_selecting(labels), "replicas": 1}}, "gm")
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": _selecting({"sedna": "lc"})}
    yield _in_sedna(daemons, "lc")
    ports = [{"port": 9000, "targetPort": 9000}]
    spec = {"selector": labels, "type": "NodePort", "ports": ports}
    yield _in_sedna({"apiVersion": "v1", "kind": "Service", "spec": spec}, "gm")
    worker = {
        "name": "old-train-x7x2p",
        "namespace": "default",
        "labels": {"federatedlearningjob.sedna.io/name": "old"},
    }
    containers = [{"name": "main", "image": "example.com/train:1"}]
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": worker,
        "spec": {"containers": containers},
    }


def _selecting(labels: dict[str, str]) -> Json:
    template = workload()["spec"]["template"]
    return {
        "selector": {"matchLabels": labels},
        "template": {**template, "metadata": {"labels": labels}},
    }


def _in_sedna(body: Json, name: str) -> Json:
    return {**body, "metadata": {"name": name, "namespace": "sedna"}}


def _sednas_definitions() -> Iterator[Json]:
    """Ours without what they have beyond Sedna's."""
    for body in definitions():
        if body["metadata"]["name"].startswith("nodereports."):
            continue
        for version in body["spec"]["versions"]:
            version.pop("selectableFields", None)
            status = version["schema"]["openAPIV3Schema"]["properties"].get("status", {})
            status.get("properties", {}).pop("appliedReports", None)
        yield body


@pytest.fixture
def typist(plane: ControlPlane, tmp_path: Path) -> Iterator[Typist]:
    """Beside what Sedna's installation leaves; nothing of it afterwards."""
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    until(lambda: plane.admin.get(account)[0] == 200, what="an account for pods")
    typist = Typist(plane, tmp_path)
    _write(tmp_path, "crds.yaml", *_sednas_definitions())
    _write(tmp_path, "sedna.yaml", *_of_sedna())
    typist.type("kubectl create -f crds.yaml -f sedna.yaml")
    until(lambda: create(plane.admin, "default", sample(DATASET))[0] == 201, what="Sedna's kinds")
    assert not _has_applied_reports(plane)
    yield typist
    typist.type("kubectl delete namespace/sedna && kubectl delete -f crds.yaml")


def test_sednas_own_are_followed_by_ours_as_it_says(plane: ControlPlane, typist: Typist) -> None:
    admin = plane.admin
    before = _datasets(plane)

    told = typist.type(_moved("All nodes at once"))

    assert 'pod "old-train-x7x2p" deleted' in told
    assert admin.get("/api/v1/namespaces/default/pods/old-train-x7x2p")[0] == 404
    for path in (f"{SEDNA}/deployments/gm", f"{SEDNA}/daemonsets/lc"):
        found = expect(admin.get(path))
        assert "sedna" not in found["spec"]["selector"]["matchLabels"]
        assert _image(plane, path).startswith(f"{OWN_IMAGES}/")
    assert len(before) == 1
    assert _datasets(plane) == before
    assert _has_applied_reports(plane)


@pytest.fixture
def edge_node(plane: ControlPlane) -> Iterator[None]:
    """One without the taint of those whose kubelet has not spoken yet."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-a"}}
    expect(plane.admin.post("/api/v1/nodes", node))
    expect(plane.admin.patch("/api/v1/nodes/edge-a", {"spec": {"taints": None}}))
    yield
    expect(plane.admin.delete("/api/v1/nodes/edge-a"))


@pytest.mark.usefixtures("edge_node")
def test_a_fleet_moves_node_by_node_as_it_says(plane: ControlPlane, typist: Typist) -> None:
    admin = plane.admin
    begin, each = blocks("docs/how-to/move-from-sedna.md", "Node by node", "sh")
    (old_port,) = expect(admin.get(f"{CORE}/services/gm"))["spec"]["ports"]
    until(lambda: len(_pods(plane, "sedna=lc")) == 1, what="Sedna's LC")

    typist.type(f"{_moved()}\n{begin}")

    service = expect(admin.get(f"{CORE}/services/gm-sedna"))["spec"]
    (port,) = service["ports"]
    assert port["nodePort"] == old_port["nodePort"]
    gm = expect(admin.get(f"{SEDNA}/deployments/gm"))["spec"]["template"]
    assert service["selector"].items() <= gm["metadata"]["labels"].items()
    (main,) = gm["spec"]["containers"]
    named = {it["name"]: it["containerPort"] for it in main["ports"]}
    (listen,) = (it["value"] for it in main["env"] if it["name"] == "GM_SEDNA_LISTEN")
    assert listen.endswith(f":{named[port['targetPort']]}")
    # Read by GM itself, beside all else that it is told there.
    told = {it["name"]: it.get("value", "sedna") for it in main["env"]}
    assert str(load_gm([], {**told, "GM_MODE": "active-active"}).sedna_listen) == listen
    policy = expect(admin.get(f"/apis/networking.k8s.io/v1{CORE[7:]}/networkpolicies/gm"))
    open_ports = [it["port"] for rule in policy["spec"]["ingress"] for it in rule["ports"]]
    assert port["targetPort"] in open_ports

    # The old LC outlives its DaemonSet; ours is not there while the node has no label.
    (old,) = _pods(plane, "sedna=lc")
    assert "ownerReferences" not in old["metadata"]
    assert _pods(plane, "app=lc") == []
    # The scheduler's word: there is none here.
    name = old["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": "edge-a"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    expect(admin.post(f"{CORE}/pods/{name}/binding", binding))
    with _kubelet(plane, name):
        typist.type(each)
    assert _pods(plane, "sedna=lc") == []
    until(lambda: len(_pods(plane, "app=lc")) == 1, what="our LC")


def _moved(title: str = "") -> str:
    """What comes first, and for one of the two ways, what comes then."""
    first = blocks("docs/how-to/move-from-sedna.md", "From Sedna's GM and LC", "sh")[0]
    return "\n".join(
        [first, *(blocks("docs/how-to/move-from-sedna.md", title, "sh") if title else ())]
    )


def _datasets(plane: ControlPlane) -> list[Json]:
    """Specs; a collection's storage begins anew with its definition."""
    path = DATASET.collection("default")
    until(lambda: plane.admin.get(path)[0] == 200, what="Sedna's kinds")
    return [it["spec"] for it in expect(plane.admin.get(path))["items"]]


def _pods(plane: ControlPlane, selector: str) -> list[Json]:
    path = f"{CORE}/pods?labelSelector={quote(selector)}"
    found: list[Json] = expect(plane.admin.get(path))["items"]
    return found


@contextmanager
def _kubelet(plane: ControlPlane, pod: str) -> Iterator[None]:
    """What its kubelet does: ends the pod once it is to go."""

    def end() -> None:
        path = f"{CORE}/pods/{pod}"
        until(lambda: "deletionTimestamp" in plane.admin.get(path)[1]["metadata"], what="its end")
        expect(plane.admin.delete(path, {"gracePeriodSeconds": 0}))

    thread = threading.Thread(target=end)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _has_applied_reports(plane: ControlPlane) -> bool:
    name = f"{FEDERATED_LEARNING_JOB.plural}.sedna.io"
    (version,) = expect(plane.admin.get(f"{CRDS}/{name}"))["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return "appliedReports" in status["properties"]


# ── upgrades ──


def test_a_release_is_upgraded_and_rolled_back_as_it_says(
    plane: ControlPlane, tmp_path: Path
) -> None:
    upgrade, undo = blocks("docs/how-to/upgrade.md", "Upgrade and roll back", "sh")
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "manifests", checkout / "manifests")
    typist = Typist(plane, tmp_path, checkout=checkout)
    typist.type(upgrade)
    gm, lc = f"{SEDNA}/deployments/gm", f"{SEDNA}/daemonsets/lc"
    old = [_image(plane, path) for path in (gm, lc)]
    until(lambda: _revisions(plane, "lc") >= 1, what="what to go back to")
    first = _revision(plane)
    versions = checkout / "manifests/images/images.yaml"
    text = versions.read_text(encoding="utf-8")
    assert f"newTag: {VERSION}" in text
    versions.write_text(text.replace(f"newTag: {VERSION}", "newTag: 9.9.9"), encoding="utf-8")

    typist.type(upgrade)

    assert [_image(plane, path).rpartition(":")[2] for path in (gm, lc)] == ["9.9.9"] * 2
    until(lambda: _revision(plane) > first, what="the Deployment's next revision")
    until(lambda: _revisions(plane, "lc") >= 2, what="the DaemonSet's next revision")
    told = typist.type(undo)
    assert "deployment.apps/gm rolled back" in told
    assert "daemonset.apps/lc rolled back" in told
    assert [_image(plane, path) for path in (gm, lc)] == old


def _revision(plane: ControlPlane) -> int:
    found = expect(plane.admin.get(f"{SEDNA}/deployments/gm"))["metadata"]["annotations"]
    return int(found.get("deployment.kubernetes.io/revision", 0))


def _revisions(plane: ControlPlane, daemons: str) -> int:
    items = expect(plane.admin.get(f"{SEDNA}/controllerrevisions"))["items"]
    owners = [it["metadata"]["ownerReferences"][0]["name"] for it in items]
    # Of the present DaemonSet: one of that name before it took its own with it, by and by.
    uid = expect(plane.admin.get(f"{SEDNA}/daemonsets/{daemons}"))["metadata"]["uid"]
    ours = [it for it in items if it["metadata"]["ownerReferences"][0]["uid"] == uid]
    return len(ours) if daemons in owners else 0


# ── from contrib ──


def test_contribs_elector_is_followed_by_ours_with_nothing_in_between(
    plane: ControlPlane, tmp_path: Path
) -> None:
    typist = Typist(plane, tmp_path)
    old = _electing("example.com/leader-elector:0.5")
    _write(tmp_path, "deployment.yaml", old)
    _write(tmp_path, "kustomization.yaml", {"resources": ["deployment.yaml"]})
    typist.type("kubectl apply -k .")
    pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dshop"
    until(lambda: len(expect(plane.admin.get(pods))["items"]) == 3, what="the old pods")
    _write(tmp_path, "deployment.yaml", _electing(f"{OWN_IMAGES}/elector-sidecar:{VERSION}"))

    (script,) = blocks("docs/how-to/move-an-elector.md", "From contrib's leader-elector", "sh")
    told = typist.type(script)

    assert "deployment.apps/shop scaled" in told
    assert _image(plane, SHOP).startswith(f"{OWN_IMAGES}/")
    assert expect(plane.admin.get(SHOP))["spec"]["replicas"] == 3
    until(
        lambda: _images(plane, pods) == {f"{OWN_IMAGES}/elector-sidecar:{VERSION}"},
        what="new pods",
    )


def _images(plane: ControlPlane, pods: str) -> set[str]:
    items = expect(plane.admin.get(pods))["items"]
    return {it["spec"]["containers"][0]["image"] for it in items}


def _electing(image: str) -> Json:
    body = workload()
    args = ["--election=shop", "--http=0.0.0.0:4040"]
    elector = {"name": "leader-elector", "image": image, "args": args}
    body["spec"]["template"]["spec"]["containers"].insert(0, elector)
    return {**body, "spec": {**body["spec"], "replicas": 3}}
