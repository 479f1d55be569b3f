"""The CRDs and samples: at kube-apiserver, through a relay, and at the local API server."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    FEDERATED_LEARNING_JOB,
    INCREMENTAL_LEARNING_JOB,
    JOINT_INFERENCE_SERVICE,
    KINDS,
    NODE_REPORT,
    REID_JOB,
    ResourceKind,
)
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.core.store_reports import Stored
from edge_sidecars.sedna_api.core.stored_report import AppliedReport, applied_json, applied_of
from tests.integration.lib.sedna_api.definitions import MANIFESTS, Json, create, definitions, sample
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.controlplane.schemas.sedna_kinds import CRDS, SERVED_TIMEOUT, install
from tools.harness.peers.kubectl import Kubectl
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess

ALL = (*KINDS, NODE_REPORT)
NODE = "template.spec.nodeName"
# (kind, selectable field, a node that its sample has there, the others having another one).
FIELDS = [
    (DATASET, "spec.nodeName", "edge-a"),
    (JOINT_INFERENCE_SERVICE, f"spec.edgeWorker.{NODE}", "edge-a"),
    (JOINT_INFERENCE_SERVICE, f"spec.cloudWorker.{NODE}", "cloud-1"),
    (FEDERATED_LEARNING_JOB, f"spec.aggregationWorker.{NODE}", "cloud-1"),
    (INCREMENTAL_LEARNING_JOB, f"spec.trainSpec.{NODE}", "edge-a"),
    (INCREMENTAL_LEARNING_JOB, f"spec.evalSpec.{NODE}", "edge-a"),
    (INCREMENTAL_LEARNING_JOB, f"spec.deploySpec.{NODE}", "edge-a"),
    *((kind, f"spec.{NODE}", "") for kind in KINDS if kind.short in ("fe", "va", "reid")),
    (NODE_REPORT, "node", "edge-a"),
]


@pytest.fixture(scope="module")
def local() -> Iterator[LocalApiServerProcess]:
    with LocalApiServerProcess() as server:
        yield server


@dataclass(frozen=True)
class Server:
    """Where objects are written and read, and who makes namespaces."""

    admin: AdminClient
    owner: ApiServer


@pytest.fixture(scope="module", params=["kube-apiserver", "relay", "local"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    name = "local" if request.param == "local" else "control_plane"
    owner: ApiServer = request.getfixturevalue(name)
    install(owner)
    if request.param != "relay":
        yield Server(owner.admin, owner)
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    with RelayProcess([f"--kubeconfig={plane.admin_kubeconfig()}"]) as relay:
        yield Server(AdminClient(LOOPBACK, relay.port, None), owner)


@pytest.fixture
def place(server: Server) -> str:
    """A fresh namespace of the server."""
    return server.owner.create_namespace("sedna")


def test_there_is_a_definition_and_a_sample_of_every_kind() -> None:
    names = {it["spec"]["names"]["kind"]: it["spec"]["names"] for it in definitions()}

    assert set(names) == {kind.kind for kind in ALL}
    for kind in ALL:
        assert names[kind.kind]["plural"] == kind.plural
        assert names[kind.kind]["singular"] == kind.singular
        assert names[kind.kind].get("shortNames", []) == [kind.short] * bool(kind.short)
        assert sample(kind)["kind"] == kind.kind


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.singular)
def test_a_sample_is_taken_as_it_is_written(server: Server, place: str, kind: ResourceKind) -> None:
    """With field validation Strict: nothing of it is unknown, nothing is dropped."""
    written = sample(kind)
    created = expect(create(server.admin, place, written))

    for field in written.keys() - {"metadata"}:
        assert created[field] == written[field]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.singular)
def test_a_misspelt_field_is_refused(server: Server, place: str, kind: ResourceKind) -> None:
    written = sample(kind)
    written.get("spec", written)["nodename"] = "edge-a"
    misspelt = ["nodename"]
    for number, template in enumerate(_templates(written)):
        # Of a pod, a container, and deep below: each template has its own.
        template["spec"][f"nodeNam{number}"] = "edge-a"
        (container, *_) = template["spec"]["containers"]
        container[f"imag{number}"] = "i"
        container["livenessProbe"] = {"httpGet": {"port": 80, f"pat{number}": "/"}}
        misspelt += [f"nodeNam{number}", f"imag{number}", f"pat{number}"]

    status, answer = create(server.admin, place, written)
    assert status == 400, answer
    for name in misspelt:
        assert f'{name}"' in answer["message"]


def test_strict_validation_misses_typos_where_unknown_fields_are_kept(
    control_plane: ControlPlane,
) -> None:
    """Why our templates keep none, of a later Kubernetes either: it is one or the other."""
    place = control_plane.create_namespace("keeping")
    keeping: Json = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"image": {"type": "string"}},
    }
    schema = {"type": "object", "properties": {"spec": keeping}}
    names = {"plural": "keepers", "singular": "keeper", "kind": "Keeper"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "keepers.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
    expect(control_plane.admin.post(CRDS, definition))
    try:
        collection = f"/apis/example.com/v1/namespaces/{place}/keepers"
        wait_for(
            lambda: control_plane.admin.get(collection)[0] == 200,
            timeout=SERVED_TIMEOUT,
            what="the new kind",
        )
        head = {"apiVersion": "example.com/v1", "kind": "Keeper", "metadata": {"name": "a"}}
        body = head | {"spec": {"imagee": "misspelt"}}
        status, _ = control_plane.admin.post(f"{collection}?fieldValidation=Strict", body)
        assert status == 201
    finally:
        control_plane.admin.delete(f"{CRDS}/keepers.example.com")


def test_an_autoscaler_is_taken_and_a_misspelt_field_of_it_refused(
    server: Server, place: str
) -> None:
    written = sample(JOINT_INFERENCE_SERVICE)
    target: Json = {"type": "Utilization", "averageUtilization": 50}
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    hpa = written["spec"]["cloudWorker"]["hpa"] = {
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        "behavior": {"scaleDown": {"policies": [policy]}},
    }
    created = expect(create(server.admin, place, written))
    assert created["spec"]["cloudWorker"]["hpa"] == hpa

    written["metadata"]["name"] = "misspelt"
    target["averageUtilisation"] = policy["periodSecond"] = 1
    status, answer = create(server.admin, place, written)
    assert status == 400, answer
    assert 'averageUtilisation"' in answer["message"]
    assert 'periodSecond"' in answer["message"]


def test_a_template_is_taken_as_pods_are(server: Server, place: str) -> None:
    """What a Pod's own schema takes in more than one form, and nulls, which Go's types write."""
    written = sample(REID_JOB)
    (template,) = _templates(written)
    template["metadata"] = {"creationTimestamp": None, "labels": {"app": "reid"}}
    (container, *_) = template["spec"]["containers"]
    container |= {
        "resources": {"limits": {"cpu": 0.5, "memory": 1024}, "requests": {"cpu": "100m"}},
        "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "readinessProbe": {"httpGet": {"port": "http"}},
        "env": None,
    }
    created = expect(create(server.admin, place, written))

    (kept,) = _templates(created)
    assert kept["metadata"] == {"labels": {"app": "reid"}}
    # Nothing is added: a default would make another pod of an object that is there.
    del container["env"]
    assert kept["spec"] == template["spec"]


def _templates(tree: Any) -> Iterator[Json]:
    if isinstance(tree, dict):
        for name, child in tree.items():
            if name == "template":
                yield child
            else:
                yield from _templates(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from _templates(child)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.singular)
def test_a_status_keeps_what_gm_writes(server: Server, place: str, kind: ResourceKind) -> None:
    written = sample(kind)
    created = expect(create(server.admin, place, written))
    taken = {node: AppliedReport(node, "s1", 1_767_225_600, 2**53) for node in ("edge-a", "edge-b")}
    moment = "2026-01-02T03:04:05Z"
    status: Json = {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Failed",
                "status": "True",
                "lastHeartbeatTime": moment,
                "lastTransitionTime": moment,
                "reason": "InvalidSpec",
                "message": "spec.url: is empty",
            }
        ],
        "appliedReports": applied_json(taken),
    }
    path = f"{kind.path(place, written['metadata']['name'])}/status?fieldValidation=Strict"
    created["status"] = status
    kept = expect(server.admin.put(path, created))

    assert kept["status"] == status
    assert applied_of(kept["status"]) == taken
    assert kept["metadata"]["generation"] == created["metadata"]["generation"]
    # A list map: two lines of one node are refused, not doubled.
    kept["status"]["appliedReports"].append(applied_json(taken)[0])
    assert server.admin.put(path, kept)[0] == 422


@pytest.mark.parametrize(
    ("kind", "field", "node"), FIELDS, ids=lambda it: getattr(it, "singular", it)
)
def test_objects_are_selected_by_the_field_that_names_their_node(
    server: Server, place: str, kind: ResourceKind, field: str, node: str
) -> None:
    written = sample(kind)
    expect(create(server.admin, place, written))
    mine = node or written["spec"]["template"]["spec"]["nodeName"]

    def selected(value: str) -> list[str]:
        query = f"?fieldSelector={field}%3D{value}"
        found = expect(server.admin.get(f"{kind.collection(place)}{query}"))
        return [it["metadata"]["name"] for it in found["items"]]

    assert selected(mine) == [written["metadata"]["name"]]
    assert selected("elsewhere") == []


def test_a_node_report_says_the_same_after_the_api(server: Server, place: str) -> None:
    reports = [
        Report("s1", 1, "u-1", "dataset", place, "d1", False, "", b'{"numberOfSamples":0}'),
        Report("s1", 2, "u-1", "dataset", place, "d1", True, "w", b'{"a":[1,2.5,{"b":{}}]}', 1),
    ]
    collection = NODE_REPORT.collection(place)
    new = NodeReport.new(place, "edge-a", "s1", epoch=1_767_225_600)
    first, _ = new.stored(reports[:1])
    created = expect(server.admin.post(f"{collection}?fieldValidation=Strict", first.to_json()))
    read = NodeReport.parse(json.dumps(created).encode())
    second, outcomes = read.stored(reports)
    path = f"{collection}/edge-a"
    patched = NodeReport.parse(expect(server.admin.patch(path, second.to_patch())))

    assert outcomes[1] == Stored()
    assert (read.entries, patched.entries) == (first.entries, second.entries)
    assert patched.epoch == 1_767_225_600
    # Whoever read before must read again.
    assert server.admin.patch(path, second.to_patch())[0] == 409


def test_a_node_report_may_be_as_large_as_we_let_it_grow(server: Server, place: str) -> None:
    """Also where every byte is one that Go's encoder writes as six."""
    body = b'{"a":"' + b"<" * 10_000 + b'"}'
    reports = [
        Report("s1", 1, f"u-{number}", "dataset", place, f"d{number}", False, "", body)
        for number in range(40)
    ]
    grown, outcomes = NodeReport.new(place, "edge-a", "s1", epoch=1).stored(reports)

    assert 0 < outcomes.count(Stored()) < len(reports)
    expect(server.admin.post(NODE_REPORT.collection(place), grown.to_json()))


def test_what_sedna_stores_without_times_is_taken(server: Server, place: str) -> None:
    """Go writes a time that was never set as null."""
    written = copy.deepcopy(sample(FEDERATED_LEARNING_JOB))
    created = expect(create(server.admin, place, written))
    condition = {"type": "Training", "status": "True", "lastProbeTime": None}
    path = f"{FEDERATED_LEARNING_JOB.path(place, written['metadata']['name'])}/status"

    kept = expect(server.admin.put(path, created | {"status": {"conditions": [condition]}}))
    assert kept["status"]["conditions"] == [condition]


def test_kubectl_applies_all_and_shows_the_state_in_columns(control_plane: ControlPlane) -> None:
    require_program("kubectl")
    install(control_plane)
    place = control_plane.create_namespace("sedna")
    with Kubectl(control_plane.admin_kubeconfig(), place) as kubectl:
        # As it is without --server-side, each CRD also has to fit into an annotation.
        apply = ("apply", "--validate=strict", "-f")
        kubectl.run(*apply, str(MANIFESTS / "crds")).expect()
        server_side = ("--server-side", "--force-conflicts")
        kubectl.run(*apply, str(MANIFESTS / "samples"), *server_side).expect()
        job = sample(INCREMENTAL_LEARNING_JOB)["metadata"]["name"]
        condition = {"type": "Waiting", "status": "True", "stage": "Eval", "round": 7}
        path = f"{INCREMENTAL_LEARNING_JOB.path(place, job)}/status"
        expect(control_plane.admin.patch(path, {"status": {"conditions": [condition]}}))

        shown = kubectl.run("get", "il").expect().splitlines()
        assert shown[0].split() == ["NAME", "STAGE", "STATE", "ROUND", "AGE"]
        assert shown[1].split()[:4] == [job, "Eval", "Waiting", "7"]
        assert "edge-a" in kubectl.run("get", "datasets").expect()
        everything = kubectl.run("get", "sedna", "-o", "name").expect().split()
        assert len(everything) == len(KINDS)


def test_kubectl_applies_all_at_the_local_api_server_too(local: LocalApiServerProcess) -> None:
    require_program("kubectl")
    place = local.create_namespace("sedna")
    with Kubectl(local.kubeconfig_for(place, "anybody", []), place) as kubectl:
        for folder in ("crds", "samples"):
            kubectl.run("apply", "-f", str(MANIFESTS / folder)).expect()
        everything = kubectl.run("get", "sedna", "-o", "name").expect().split()
        assert len(everything) == len(KINDS)
