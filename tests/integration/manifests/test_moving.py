"""docs/operations.md and docs/migration.md: upgrades and moves that they say to type work.

On a control plane of their own with the real controllers, and no node: pods come and go, none runs.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sedna_api.core.kinds import DATASET, FEDERATED_LEARNING_JOB
from tests.controlplane.accounts import expect
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.controller_manager import ControllerManager
from tests.controlplane.fixtures import require_program
from tests.integration.manifests.site import until
from tests.integration.manifests.typist import Typist
from tests.integration.sedna_api.definitions import create, definitions, sample
from tests.unit.manifests.built import workload
from tests.unit.repository.checkout import ROOT, blocks

Json = dict[str, Any]
pytestmark = pytest.mark.slow

SEDNA = "/apis/apps/v1/namespaces/sedna"
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


def test_sednas_own_are_followed_by_ours_as_it_says(plane: ControlPlane, tmp_path: Path) -> None:
    admin = plane.admin
    typist = Typist(plane, tmp_path)
    _write(tmp_path, "crds.yaml", *_sednas_definitions())
    _write(tmp_path, "sedna.yaml", *_of_sedna())
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    until(lambda: admin.get(account)[0] == 200, what="an account for pods")
    typist.type("kubectl create -f crds.yaml -f sedna.yaml")
    until(lambda: create(admin, "default", sample(DATASET))[0] == 201, what="Sedna's kinds")
    until(lambda: admin.get(DATASET.collection("default"))[0] == 200, what="Sedna's kinds, again")
    before = expect(admin.get(DATASET.collection("default")))["items"]
    assert not _has_applied_reports(plane)

    (script,) = blocks("docs/migration.md", "From Sedna's GM and LC", "sh")
    told = typist.type(script)

    assert 'pod "old-train-x7x2p" deleted' in told
    assert admin.get("/api/v1/namespaces/default/pods/old-train-x7x2p")[0] == 404
    for path in (f"{SEDNA}/deployments/gm", f"{SEDNA}/daemonsets/lc"):
        found = expect(admin.get(path))
        assert "sedna" not in found["spec"]["selector"]["matchLabels"]
        assert _image(plane, path).startswith("edge-sidecars/")
    # Its storage begins anew with the definition.
    until(lambda: admin.get(DATASET.collection("default"))[0] == 200, what="our kinds")
    after = expect(admin.get(DATASET.collection("default")))["items"]
    assert [it["spec"] for it in after] == [it["spec"] for it in before]
    assert len(after) == 1
    assert _has_applied_reports(plane)


def _has_applied_reports(plane: ControlPlane) -> bool:
    name = f"{FEDERATED_LEARNING_JOB.plural}.sedna.io"
    (version,) = expect(plane.admin.get(f"{CRDS}/{name}"))["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return "appliedReports" in status["properties"]


# ── upgrades, after the above ──


def test_a_release_is_upgraded_and_rolled_back_as_it_says(
    plane: ControlPlane, tmp_path: Path
) -> None:
    upgrade, undo = blocks("docs/operations.md", "Upgrade and roll back", "sh")
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
    assert "newTag: 0.1.0" in text
    versions.write_text(text.replace("newTag: 0.1.0", "newTag: 9.9.9"), encoding="utf-8")

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
    _write(tmp_path, "deployment.yaml", _electing("edge-sidecars/elector-sidecar:0.1.0"))

    (script,) = blocks("docs/migration.md", "From contrib's leader-elector", "sh")
    told = typist.type(script)

    assert "deployment.apps/shop scaled" in told
    assert _image(plane, SHOP).startswith("edge-sidecars/")
    assert expect(plane.admin.get(SHOP))["spec"]["replicas"] == 3
    until(lambda: _images(plane, pods) == {"edge-sidecars/elector-sidecar:0.1.0"}, what="new pods")


def _images(plane: ControlPlane, pods: str) -> set[str]:
    items = expect(plane.admin.get(pods))["items"]
    return {it["spec"]["containers"][0]["image"] for it in items}


def _electing(image: str) -> Json:
    body = workload()
    args = ["--election=shop", "--http=0.0.0.0:4040"]
    elector = {"name": "leader-elector", "image": image, "args": args}
    body["spec"]["template"]["spec"]["containers"].insert(0, elector)
    return {**body, "spec": {**body["spec"], "replicas": 3}}
