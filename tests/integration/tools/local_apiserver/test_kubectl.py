"""kubectl itself against the local API server: a process without any cluster."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.tools.local_apiserver.in_process import Json
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.peers.kubectl import Kubectl

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        description: A gadget of the tests.
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How big it is.}
"""
GADGET = """
apiVersion: example.com/v1
kind: Gadget
metadata: {name: g}
spec: {size: SIZE}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "IMAGE", ports: [{containerPort: 80}]}
      - {name: side, image: side}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[LocalApiServerProcess]:
    with LocalApiServerProcess() as process:
        yield process


@pytest.fixture
def kubectl(server: LocalApiServerProcess, tmp_path: Path) -> Iterator[Kubectl]:
    require_program("kubectl")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(pointing_to(server.server)), encoding="utf-8")
    with Kubectl(kubeconfig, "default") as it:
        yield it


def pointing_to(server: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "server", "cluster": {"server": server}}],
        "users": [{"name": "anyone", "user": {}}],
        "contexts": [{"name": "server", "context": {"cluster": "server", "user": "anyone"}}],
        "current-context": "server",
    }


def applied(kubectl: Kubectl, manifest: str) -> str:
    return kubectl.run("apply", "-f", "-", stdin=manifest).expect().strip()


def test_kubectl_applies_what_it_applied_before(kubectl: Kubectl) -> None:
    first = DEPLOYMENT.replace("IMAGE", "web:1")
    assert applied(kubectl, first) == "deployment.apps/web created"
    assert applied(kubectl, first) == "deployment.apps/web unchanged"
    # By a strategic merge patch: the other container stays, though the list is sent in part.
    second = DEPLOYMENT.replace("IMAGE", "web:2")
    assert applied(kubectl, second) == "deployment.apps/web configured"
    found = kubectl.run("get", "deployment", "web", "-o", "json").json()
    containers = found["spec"]["template"]["spec"]["containers"]
    assert [one["image"] for one in containers] == ["web:2", "side"]
    assert found["metadata"]["generation"] == 2
    assert "deleted" in kubectl.run("delete", "deployment", "web").expect()


def test_kubectl_works_with_a_custom_resource(kubectl: Kubectl) -> None:
    assert "created" in applied(kubectl, DEFINITION)
    ready = ("--for=condition=Established", "crd/gadgets.example.com", "--timeout=20s")
    kubectl.run("wait", *ready).expect()
    assert applied(kubectl, GADGET.replace("SIZE", "1")) == "gadget.example.com/g created"
    assert applied(kubectl, GADGET.replace("SIZE", "2")) == "gadget.example.com/g configured"
    refused = kubectl.run("apply", "-f", "-", stdin=GADGET.replace("SIZE", "0"))
    assert "should be greater than or equal to 1" in refused.errors
    unknown = GADGET.replace("SIZE", "1, colour: red")
    refused = kubectl.run("apply", "-f", "-", stdin=unknown)
    assert 'unknown field "spec.colour"' in refused.errors
    assert "How big it is." in kubectl.run("explain", "gadgets.spec.size").expect()
    assert "gadgets" in kubectl.run("api-resources", "--api-group=example.com").expect()
    patch = json.dumps({"status": {"phase": "fine"}, "spec": {"size": 9}})
    kubectl.run("patch", "gd", "g", "--type=merge", "--subresource=status", "-p", patch).expect()
    assert kubectl.run("get", "gd", "g", "-o", "jsonpath={.spec.size}").expect() == "2"
    kubectl.run("delete", "crd", "gadgets.example.com", "--timeout=20s").expect()
    assert kubectl.run("get", "gadgets").status != 0


def test_kubectl_creates_edits_and_deletes(kubectl: Kubectl) -> None:
    manifest = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"b"}}'
    kubectl.run("create", "-f", "-", stdin=manifest).expect()
    again = kubectl.run("create", "-f", "-", stdin=manifest)
    assert "AlreadyExists" in again.errors
    kubectl.run("label", "configmap", "c", "x=y").expect()
    kubectl.run("annotate", "configmap", "c", "x=y").expect()
    kubectl.run("patch", "configmap", "c", "-p", '{"data":{"c":"d"}}').expect()
    operations = '[{"op":"remove","path":"/data/a"}]'
    kubectl.run("patch", "configmap", "c", "--type=json", "-p", operations).expect()
    found = kubectl.run("get", "configmaps", "-l", "x=y", "-o", "json").json()["items"]
    assert [one["data"] for one in found] == [{"c": "d"}]
    kubectl.run("replace", "-f", "-", stdin=manifest).expect()
    assert "configmap/c" in kubectl.run("get", "configmaps", "-o", "name").expect()
    assert "a:" in kubectl.run("describe", "configmap", "c").expect()
    kubectl.run("delete", "configmap", "c").expect()
    assert "NotFound" in kubectl.run("get", "configmap", "c").errors


def test_kubectl_create_of_a_typed_object_names_what_to_send(kubectl: Kubectl) -> None:
    refused = kubectl.run("create", "configmap", "typed", "--from-literal=a=b")
    assert "accepted media types include: application/json" in refused.errors
    local = ("create", "configmap", "typed", "--from-literal=a=b", "--dry-run=client", "-o", "json")
    manifest = kubectl.run(*local).expect()
    assert "created" in kubectl.run("create", "-f", "-", stdin=manifest).expect()
    kubectl.run("delete", "configmap", "typed").expect()


def test_kubectl_asks_who_it_is_and_what_it_may(kubectl: Kubectl) -> None:
    assert kubectl.run("auth", "can-i", "delete", "pods").expect().strip() == "yes"
    assert "local-apiserver:anybody" in kubectl.run("auth", "whoami").expect()


def test_kubectl_is_told_what_it_asks_about_the_server(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37" in kubectl.run("version").expect()
    assert kubectl.run("get", "--raw", "/readyz").expect() == "ok"
    lines = kubectl.run("api-resources", "-o", "name").expect().split()
    assert {"pods", "leases.coordination.k8s.io", "deployments.apps"} <= set(lines)
    explained = kubectl.run("explain", "lease.spec.holderIdentity").expect()
    assert "holderIdentity" in explained


def test_kubectl_deletes_a_namespace_with_what_is_in_it(kubectl: Kubectl) -> None:
    manifest = '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}'
    kubectl.run("create", "-f", "-", stdin=manifest).expect()
    manifest = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}'
    kubectl.run("create", "--namespace=n", "-f", "-", stdin=manifest).expect()
    kubectl.run("delete", "namespace", "n", "--timeout=20s").expect()
    assert kubectl.run("get", "configmaps", "-A", "-o", "name").expect().split() == []


def test_server_side_apply_is_refused_in_words(kubectl: Kubectl) -> None:
    manifest = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}'
    refused = kubectl.run("apply", "--server-side", "-f", "-", stdin=manifest)
    assert "application/merge-patch+json" in refused.errors
