"""Sidecars' components on workloads that know nothing of them; and what is missing is named."""

import os
from pathlib import Path

import pytest
import yaml

from tests.unit.manifests.built import (
    MANIFESTS,
    WORKLOADS,
    Json,
    containers,
    named,
    workload,
    write_kustomization,
)
from tests.unit.repository.checkout import fences
from tools.harness.controlplane.clients.kustomization import NotBuilt
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.images import OWN_IMAGES

ELECTOR = "elector-sidecar"
SHARDED = (ELECTOR, "elector-shards")
ELECTION = "edge-sidecars.io/election"
ACCOUNT = {"serviceAccountName": "shop"}


def _container(workload: Json, name: str) -> Json:
    (found,) = [it for it in containers(workload) if it["name"] == name]
    return found


@pytest.mark.parametrize("kind", WORKLOADS)
def test_an_elector_is_added_to_whatever_has_pods(kind: str, tmp_path: Path) -> None:
    folder = write_kustomization(tmp_path, [workload(kind, **ACCOUNT)], components=[ELECTOR])
    objects = kustomize(folder)
    found = named(objects, kind, "shop")
    template = found["spec"]["template"]
    assert template["metadata"]["annotations"] == {"edge-sidecars.io/lease": "shop"}
    assert _container(found, "elector")["restartPolicy"] == "Always"
    assert _container(found, "main") == {"name": "main", "image": "example.com/shop:1"}
    assert named(objects, "Lease", "shop")
    assert "spec" not in named(objects, "Lease", "shop")
    role = named(objects, "Role", "shop-elector")
    assert role["rules"][0]["resourceNames"] == ["shop"]
    binding = named(objects, "RoleBinding", "shop-elector")
    assert binding["roleRef"]["name"] == "shop-elector"
    assert [it["name"] for it in binding["subjects"]] == ["shop"]


def test_a_prefix_reaches_whoever_names_the_lease(tmp_path: Path) -> None:
    folder = write_kustomization(
        tmp_path, [workload(**ACCOUNT)], components=[ELECTOR], namePrefix="dev-"
    )
    objects = kustomize(folder)
    template = named(objects, "Deployment", "dev-shop")["spec"]["template"]
    assert template["metadata"]["annotations"] == {"edge-sidecars.io/lease": "dev-shop"}
    assert named(objects, "Lease", "dev-shop")
    role = named(objects, "Role", "dev-shop-elector")
    assert role["rules"][0]["resourceNames"] == ["dev-shop"]


@pytest.mark.parametrize("kind", WORKLOADS)
def test_with_shards_the_elector_and_its_rights_are_told_the_election(
    kind: str, tmp_path: Path
) -> None:
    folder = write_kustomization(tmp_path, [workload(kind, **ACCOUNT)], components=SHARDED)
    objects = kustomize(folder)
    elector = _container(named(objects, kind, "shop"), "elector")
    assert {"name": "ELECTOR_SHARDS", "value": "64"} in elector["env"]
    uid = {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert {"name": "POD_UID", "valueFrom": uid} in elector["env"]
    for labelled in ("Lease", "shop"), ("RoleBinding", "shop-elector"):
        assert named(objects, *labelled)["metadata"]["labels"][ELECTION] == "shop"
    rules = named(objects, "Role", "shop-elector")["rules"]
    assert not any("resourceNames" in it for it in rules)
    verbs = [verb for it in rules if it["resources"] == ["leases"] for verb in it["verbs"]]
    assert sorted(verbs) == ["create", "get", "list", "update", "watch"]
    assert [it["verbs"] for it in rules if it["resources"] == ["events"]] == [["create"]]


def test_a_prefix_and_a_namespace_reach_what_says_the_election(tmp_path: Path) -> None:
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shop"}}
    folder = write_kustomization(
        *(tmp_path, [workload(**ACCOUNT), account]),
        components=SHARDED,
        namePrefix="dev-",
        namespace="staging",
    )
    objects = kustomize(folder)
    binding = named(objects, "RoleBinding", "dev-shop-elector")
    assert binding["metadata"]["labels"][ELECTION] == "dev-shop"
    subject = {"kind": "ServiceAccount", "name": "dev-shop", "namespace": "staging"}
    assert binding["subjects"] == [subject]
    lease = named(objects, "Lease", "dev-shop")
    assert lease["metadata"]["labels"][ELECTION] == "dev-shop"
    assert {it["metadata"]["namespace"] for it in objects} == {"staging"}


def test_with_shards_a_users_own_roles_and_leases_are_left_alone(tmp_path: Path) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    rbac = "rbac.authorization.k8s.io/v1"
    own: list[Json] = [
        {"apiVersion": rbac, "kind": "Role", "metadata": {"name": "my-elector"}, "rules": [rule]},
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "mine", "labels": {"app": "shop"}},
        },
    ]
    folder = write_kustomization(tmp_path, [workload(**ACCOUNT), *own], components=SHARDED)
    objects = kustomize(folder)
    for each in own:
        assert named(objects, each["kind"], each["metadata"]["name"]) == each


def test_a_users_own_roles_are_left_alone(tmp_path: Path) -> None:
    own: Json = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "shop"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    }
    folder = write_kustomization(tmp_path, [workload(**ACCOUNT), own], components=[ELECTOR])
    assert named(kustomize(folder), "Role", "shop") == own


def test_what_the_workload_says_of_its_elector_is_kept(tmp_path: Path) -> None:
    url = {"name": "ELECTOR_HEALTH_URL", "value": "http://127.0.0.1:8080/healthz"}
    own = {"name": "elector", "env": [url]}
    folder = write_kustomization(
        tmp_path, [workload(**ACCOUNT, initContainers=[own])], components=[ELECTOR]
    )
    elector = _container(named(kustomize(folder), "Deployment", "shop"), "elector")
    assert url in elector["env"]
    assert elector["image"].startswith(f"{OWN_IMAGES}/elector-sidecar:")


def test_a_registry_is_named_in_one_place(tmp_path: Path) -> None:
    images = [{"name": f"{OWN_IMAGES}/relay-sidecar", "newName": "registry.example/relay"}]
    folder = write_kustomization(
        tmp_path, [workload()], components=["relay-sidecar"], images=images
    )
    found = {it["image"] for it in containers(named(kustomize(folder), "Deployment", "shop"))}
    ours = {it for it in found if "relay" in it}
    assert {it.rpartition(":")[0] for it in ours} == {"registry.example/relay"}
    assert all(it.rpartition(":")[2] for it in ours)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_relay_is_added_and_every_container_led_there(kind: str, tmp_path: Path) -> None:
    other = {"name": "other", "image": "example.com/other:1", "env": [{"name": "A", "value": "b"}]}
    body = workload(kind)
    body["spec"]["template"]["spec"]["containers"].append(other)
    folder = write_kustomization(tmp_path, [body], components=["relay-sidecar"])
    found = named(kustomize(folder), kind, "shop")
    spec = found["spec"]["template"]["spec"]
    assert [it["name"] for it in spec["initContainers"]] == ["kubeconfig", "relay"]
    for container in spec["containers"]:
        assert {"name": "KUBECONFIG", "value": "/var/run/relay/kubeconfig"} in container["env"]
        mount = {"name": "relay-kubeconfig", "mountPath": "/var/run/relay"}
        assert mount in container["volumeMounts"]
    assert {"name": "A", "value": "b"} in _container(found, "other")["env"]
    assert {"name": "relay-data", "emptyDir": {}} in spec["volumes"]


def test_readiness_of_the_leader_alone_comes_with_an_update_that_ends(tmp_path: Path) -> None:
    folder = write_kustomization(
        tmp_path, [workload(**ACCOUNT)], components=[ELECTOR, "ready-when-leading"]
    )
    found = named(kustomize(folder), "Deployment", "shop")
    elector = _container(found, "elector")
    assert elector["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "elector"}
    assert found["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": "100%", "maxSurge": 0}


# ── what is missing is named ──


def test_an_elector_without_a_service_account_to_give_rights_to_is_not_built(
    tmp_path: Path,
) -> None:
    folder = write_kustomization(tmp_path, [workload()], components=[ELECTOR])
    with pytest.raises(NotBuilt, match=r"serviceAccountName` is missing"):
        kustomize(folder)


@pytest.mark.parametrize("component", ["leader-label", "ready-when-leading", "elector-shards"])
def test_what_tells_the_elector_is_not_built_without_one(component: str, tmp_path: Path) -> None:
    folder = write_kustomization(tmp_path, [workload(**ACCOUNT)], components=[component])
    with pytest.raises(NotBuilt, match="elector"):
        kustomize(folder)


def test_a_component_without_a_workload_is_not_built(tmp_path: Path) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shop"}}
    folder = write_kustomization(tmp_path, [account], components=[ELECTOR])
    with pytest.raises(NotBuilt, match="apps"):
        kustomize(folder)


@pytest.mark.parametrize("component", [ELECTOR, "relay-sidecar"])
@pytest.mark.parametrize("kind", ["CronJob", "Job", "Pod"])
def test_a_kind_that_a_component_does_not_know_is_not_built(
    kind: str, component: str, tmp_path: Path
) -> None:
    """Silence would be a pod without its sidecar."""
    pod: Json = workload(**ACCOUNT)["spec"]["template"]
    other: Json = {**pod, "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}}
    if kind == "Job":
        other = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "shop"}}
        other["spec"] = {"template": pod}
    elif kind == "CronJob":
        other = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "shop"}}
        other["spec"] = {"schedule": "@daily", "jobTemplate": {"spec": {"template": pod}}}
    folder = write_kustomization(tmp_path, [other], components=[component])
    with pytest.raises(NotBuilt, match=r"nothing selected by .*apps/"):
        kustomize(folder)


@pytest.mark.parametrize(
    ("title", "component", "container"),
    [
        ("Add the elector in five minutes", ELECTOR, "elector"),
        ("Add the relay in five minutes", "relay-sidecar", "relay"),
    ],
)
@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_documented_patch_reaches_every_kind_of_workload(
    title: str, component: str, container: str, kind: str, tmp_path: Path
) -> None:
    blocks = [text for heading, _, text in fences("docs/how-to/manifests.md") if heading == title]
    written = next(text for text in blocks if "kustomization.yaml <<" in text)
    patches = yaml.safe_load(written.split("<<'EOF'\n")[1].split("\nEOF")[0])["patches"]
    objects = [workload(kind, **ACCOUNT)]
    without = kustomize(write_kustomization(tmp_path / "a", objects, components=[component]))
    folder = write_kustomization(tmp_path / "b", objects, components=[component], patches=patches)
    before, after = (
        _container(named(it, kind, "shop"), container)["env"] for it in (without, kustomize(folder))
    )
    assert {it["name"] for it in after} > {it["name"] for it in before}


def test_two_workloads_in_one_kustomization_are_not_built(tmp_path: Path) -> None:
    two = [workload(**ACCOUNT), workload("DaemonSet", **ACCOUNT)]
    folder = write_kustomization(tmp_path, two, components=[ELECTOR])
    with pytest.raises(NotBuilt, match="multiple matches"):
        kustomize(folder)


def test_two_modes_at_once_collide_at_what_says_the_mode(tmp_path: Path) -> None:
    base = os.path.relpath(MANIFESTS / "overlays", tmp_path.resolve())
    both = [f"{base}/{name}" for name in ("active-active", "active-standby-service")]
    (tmp_path / "kustomization.yaml").write_text(f"resources: {both}\n", encoding="utf-8")
    with pytest.raises(NotBuilt, match=r"ConfigMap.*/ha-mode"):
        kustomize(tmp_path)


COMPONENTS = sorted(MANIFESTS.glob("components/**/kustomization.yaml"))


@pytest.mark.parametrize("path", COMPONENTS, ids=lambda it: it.parent.name)
def test_a_replacement_selects_by_names_that_every_kustomize_takes_for_names(path: Path) -> None:
    """kubectl up to 1.33 takes a pattern for a name: nothing is selected, which is no error."""
    component = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = [it for each in component.get("replacements", ()) for it in each["targets"]]
    selects = [it["select"] for it in targets]
    assert [it for it in selects if set("|*+?()[]^$.") & set(it.get("kind", ""))] == []
