"""Charts of a release: Helm makes of them what kustomize makes of manifests/; values arrive."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.manifests.built import MANIFESTS, OVERLAYS, containers, of_kind
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.peers.helm import Helm, helm_binary
from tools.images import OWN_IMAGES
from tools.release.__main__ import write
from tools.release.rendered import folders

Json = dict[str, Any]

# Folders of manifests/ with containers or policies that run our images, by the name of their chart.
CHARTS = {
    **{it: f"overlays/{it}" for it in OVERLAYS},
    "pool": "overlays/pool",
    "injection": "injection",
    "injection-v1beta1": "injection/v1beta1",
}
# Where manifests put the objects of a chart; others have none with a namespace.
NAMESPACES = {**dict.fromkeys(OVERLAYS, "sedna"), "pool": "edge-pool"}
GM_CHART = "active-standby-service"


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which they are."""
    target = tmp_path_factory.mktemp("release")
    kubectl = require_program("kubectl")
    helm_binary()
    for name, folder in folders(MANIFESTS):
        for _ in write(name, folder, target, registry=OWN_IMAGES, kubectl=kubectl):
            pass
    return target / "charts"


@pytest.fixture(scope="module")
def helm() -> Iterator[Helm]:
    with Helm() as it:
        yield it


def _template(
    helm: Helm, charts: Path, name: str, *flags: str, namespace: str | None = None
) -> "subprocess.CompletedProcess[str]":
    where = namespace or NAMESPACES.get(name, "default")
    return helm.run("template", "it", str(charts / name), f"--namespace={where}", *flags)


def _rendered(
    helm: Helm, charts: Path, name: str, *flags: str, namespace: str | None = None
) -> list[Json]:
    done = _template(helm, charts, name, *flags, namespace=namespace)
    assert done.returncode == 0, done.stderr
    return [it for it in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if it]


def _comparable(objects: Sequence[Json]) -> dict[tuple[str, ...], Json]:
    """By what names them. The order of a container's variables is the chart's own."""
    found: dict[tuple[str, ...], Json] = {}
    for it in objects:
        if it["kind"] == "Namespace":
            continue
        if it["kind"] in ("Deployment", "DaemonSet"):
            for container in containers(it):
                container["env"] = {each["name"]: each for each in container.get("env", ())}
        metadata = it["metadata"]
        found[it["kind"], metadata.get("namespace", ""), metadata["name"]] = it
    return found


def _gm_rights() -> list[Json]:
    objects = kustomize(MANIFESTS / "rbac/gm-namespace")
    for it in objects:
        it["metadata"]["namespace"] = "default"
    return objects


def _env(objects: Sequence[Json], workload: str, container: str) -> dict[str, Json]:
    (found,) = [
        each
        for it in of_kind(objects, "Deployment", "DaemonSet")
        if it["metadata"]["name"] == workload
        for each in containers(it)
        if each["name"] == container
    ]
    return {it["name"]: it for it in found["env"]}


def test_what_runs_our_images_has_a_chart(charts: Path) -> None:
    assert {it.name for it in charts.iterdir()} == set(CHARTS)


@pytest.mark.parametrize("name", CHARTS)
def test_helm_finds_nothing_wrong_with_a_chart(helm: Helm, charts: Path, name: str) -> None:
    where = NAMESPACES.get(name, "default")
    # By 1.37, which this Helm takes for granted, v1beta1 is deprecated.
    server = ["--kube-version=1.34.0"] if name == "injection-v1beta1" else []
    done = helm.run("lint", "--strict", f"--namespace={where}", *server, str(charts / name))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_gives_the_objects_that_kustomize_gives(
    helm: Helm, charts: Path, name: str
) -> None:
    wanted = kustomize(MANIFESTS / CHARTS[name])
    if name in OVERLAYS:
        wanted += _gm_rights()
    assert _comparable(_rendered(helm, charts, name)) == _comparable(wanted)


@pytest.mark.parametrize("name", OVERLAYS)
def test_all_of_a_mode_is_in_the_namespace_of_the_release(
    helm: Helm, charts: Path, name: str
) -> None:
    objects = _rendered(helm, charts, name, namespace="elsewhere")
    namespaces = {it["metadata"].get("namespace") for it in objects}
    assert namespaces == {"elsewhere", "default", None}
    subjects = [it for binding in objects for it in binding.get("subjects", ())]
    assert {it["namespace"] for it in subjects if "namespace" in it} == {"elsewhere"}
    (mode,) = of_kind(objects, "ConfigMap")
    assert ".sedna." not in mode["data"].get("gm-address", "")
    if "service" in name or "active-active" in name:
        assert mode["data"]["gm-address"] == "gm.elsewhere.svc:9000"


@pytest.mark.parametrize("name", [*OVERLAYS, "pool", "injection"])
def test_a_chart_is_taken_field_by_field(
    helm: Helm, charts: Path, control_plane: ControlPlane, tmp_path: Path, name: str
) -> None:
    sedna_kinds.install(control_plane)
    namespace = NAMESPACES.get(name, "default")
    control_plane.admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    file = tmp_path / "rendered.yaml"
    # Every kind of value that a variable may have.
    more = ["--set=gm.gm.env.GM_CONCURRENCY=3"] if name in OVERLAYS else []
    done = _template(helm, charts, name, *more)
    assert done.returncode == 0, done.stderr
    file.write_text(done.stdout, encoding="utf-8")
    strict = ("--server-side", "--dry-run=server", "--validate=strict")
    applied = subprocess.run(
        [
            require_program("kubectl"),
            f"--kubeconfig={control_plane.admin_kubeconfig()}",
            *("apply", *strict, "-f", str(file)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr
    assert "Warning" not in applied.stderr, applied.stderr


def test_values_become_variables_images_and_replicas(
    helm: Helm, charts: Path, tmp_path: Path
) -> None:
    values: Json = {
        "image": {
            "registry": "registry.example.com/edge/",
            "tag": 9.5,
            "pullSecrets": [{"name": "registry"}],
        },
        "gmAddress": "198.18.0.7:9000",
        "gm": {
            "replicas": 5,
            "nodeSelector": {"disk": "fast"},
            "elector": {"env": {"ELECTOR_LEASE_DURATION": "30s", "ELECTOR_HEALTH_URL": None}},
            # As a number, which Go's templates would print as 2e+06, and as a boolean.
            "relay": {"env": {"RELAY_MAX_OBJECTS": 2000000, "RELAY_LOG_REFUSALS": True}},
            "gm": {"env": {"GM_ODD": 'a "quoted" {{ text }}: # x'}},
        },
        "lc": {"lc": {"resources": {"limits": {"memory": "1Gi"}}}},
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    objects = _rendered(helm, charts, GM_CHART, f"--values={file}")
    elector = _env(objects, "gm", "elector")
    assert elector["ELECTOR_LEASE_DURATION"]["value"] == "30s"
    assert "ELECTOR_HEALTH_URL" not in elector
    assert elector["ELECTOR_RELEASE_ON_TERM"]["value"] == "true"
    relay = _env(objects, "gm", "relay")
    assert relay["RELAY_MAX_OBJECTS"]["value"] == "2000000"
    assert relay["RELAY_LOG_REFUSALS"]["value"] == "true"
    assert _env(objects, "gm", "gm")["GM_ODD"]["value"] == 'a "quoted" {{ text }}: # x'
    (gm,) = of_kind(objects, "Deployment")
    assert gm["spec"]["replicas"] == 5
    images = {each["image"] for it in of_kind(objects, "Deployment") for each in containers(it)}
    assert images == {
        f"registry.example.com/edge/{it}:9.5" for it in ("gm", "elector-sidecar", "relay-sidecar")
    }
    pod = gm["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"disk": "fast"}
    (lc,) = of_kind(objects, "DaemonSet")
    pods = [pod, lc["spec"]["template"]["spec"]]
    assert [it["imagePullSecrets"] for it in pods] == [[{"name": "registry"}]] * 2
    assert lc["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {
        "memory": "1Gi"
    }
    (mode,) = of_kind(objects, "ConfigMap")
    assert mode["data"]["gm-address"] == "198.18.0.7:9000"


def test_a_variable_may_name_another_one_of_the_pod(helm: Helm, charts: Path) -> None:
    """kubelet puts in only what comes before."""
    preload = "--set-string=gm.relay.env.RELAY_PRELOAD=configmaps?namespace=$(POD_NAMESPACE)"
    names = list(_env(_rendered(helm, charts, "relay", preload), "gm", "relay"))
    assert names.index("POD_NAMESPACE") < names.index("RELAY_PRELOAD")


@pytest.mark.parametrize(
    ("given", "roles"),
    [
        ("default", {("Role", "default")}),
        ("shop orders", {("Role", "shop"), ("Role", "orders")}),
        ("", {("ClusterRole", "")}),
    ],
)
def test_gm_has_rights_where_it_looks_after_jobs(
    helm: Helm, charts: Path, given: str, roles: set[tuple[str, str]]
) -> None:
    objects = _rendered(helm, charts, GM_CHART, f"--set-string=gm.gm.env.GM_NAMESPACE={given}")
    found = [it for it in objects if it["metadata"]["name"] == "sedna-gm"]
    assert {
        (it["kind"], it["metadata"].get("namespace", "")) for it in found if "rules" in it
    } == roles
    assert {it["subjects"][0]["namespace"] for it in found if "subjects" in it} == {"sedna"}
    assert _env(objects, "gm", "gm")["GM_NAMESPACE"]["value"] == given


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--set=gm.elektor.env.A=b", "elektor"),
        ("--set=replicas=2", "replicas"),
        ("--set=gm.replicas=many", "gm"),
        ("--set=gm.gm.env.GM_MODE=relay", "gm.gm.env.GM_MODE: the chart sets this variable"),
        ("--set=gm.gm.env.A.b=c", "env"),
    ],
)
def test_values_that_the_chart_does_not_know_are_refused_by_name(
    helm: Helm, charts: Path, flag: str, named: str
) -> None:
    done = _template(helm, charts, GM_CHART, flag)
    assert done.returncode != 0
    assert named in done.stderr


def test_a_pool_is_refused_in_another_namespace_than_its_policies_name(
    helm: Helm, charts: Path
) -> None:
    done = _template(helm, charts, "pool", namespace="elsewhere")
    assert done.returncode != 0
    assert "--namespace elsewhere: install this chart with --namespace edge-pool" in done.stderr


@pytest.fixture
def empty_plane() -> Iterator[ControlPlane]:
    """Where no other test makes the cluster-wide objects of a chart: Helm takes over none."""
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    with ControlPlane() as it:
        yield it


@pytest.mark.long
def test_a_release_is_installed_changes_its_mode_and_goes(
    charts: Path, empty_plane: ControlPlane
) -> None:
    admin = empty_plane.admin
    deployment = "/apis/apps/v1/namespaces/sedna-by-helm/deployments/gm"
    label = "/apis/rbac.authorization.k8s.io/v1/namespaces/sedna-by-helm/roles/gm-label"
    reports = "/apis/rbac.authorization.k8s.io/v1/clusterroles/sedna-lc"
    where = "--namespace=sedna-by-helm"
    with Helm(empty_plane.admin_kubeconfig()) as helm:
        chart = str(charts / "active-standby-service")
        done = helm.run("install", "it", chart, where, "--create-namespace")
        assert done.returncode == 0, done.stderr
        assert expect(admin.get(deployment))["spec"]["replicas"] == 3
        expect(admin.get(label))
        changed = ("--set=gm.replicas=2", "--set=gm.elector.env.ELECTOR_LEASE_DURATION=30s")
        done = helm.run("upgrade", "it", str(charts / "relay"), where, *changed)
        assert done.returncode == 0, done.stderr
        found = expect(admin.get(deployment))
        assert found["spec"]["replicas"] == 2
        elector = _env([found], "gm", "elector")
        assert elector["ELECTOR_LEASE_DURATION"]["value"] == "30s"
        assert admin.get(label)[0] == 404
        expect(admin.get(reports))
        done = helm.run("uninstall", "it", where)
        assert done.returncode == 0, done.stderr
        assert admin.get(reports)[0] == 404
