"""manifests/injection on a real API server with ServiceAccount admission: which pods get a sidecar,
what it looks like, and what is refused with which reason."""

import copy
import dataclasses
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import yaml

from edge_sidecars.runtime.cli.options import declared, flag
from elector_sidecar.config.config import Config as ElectorConfig
from relay_sidecar.config.config import Config as RelayConfig
from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.injection import (
    ELECTOR,
    ELECTOR_FLAGS,
    MAIN,
    RELAY,
    RELAY_FLAGS,
    Injected,
    container,
    injected,
    names,
)
from tests.unit.manifests.built import MANIFESTS, Json, workload, write_kustomization
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program

pytestmark = pytest.mark.slow

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
IN_CLUSTER = ["in-cluster-first", "relay", "in-cluster"]
BOTH = {ELECTOR: "shop", RELAY: "in-cluster"}
JOBS = ("statefulset-controller", "daemonset-controller", "job-controller")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Injected]:
    for name in ("kube-apiserver", "etcd", "kube-controller-manager"):
        require_program(name)
    with (
        ControlPlane() as plane,
        ControllerManager(plane, more=JOBS),
        injected(plane, tmp_path_factory.mktemp("injection")) as it,
    ):
        yield it


def _mounts(pod: Json, name: str = "main") -> Json:
    """Volumes by path; a path twice would be a 422."""
    return {it["mountPath"]: it["name"] for it in container(pod, name)["volumeMounts"]}


def _environ(pod: Json, name: str = "main") -> Json:
    return {it["name"]: it.get("value", "") for it in container(pod, name).get("env", ())}


# ── which pods ──


def _template(labels: Json, **spec: Any) -> Json:
    labels = {"app": "shop", **labels}
    return {"metadata": {"labels": labels}, "spec": {"containers": [MAIN], **spec}}


def _workload(kind: str, labels: Json) -> tuple[str, Json]:
    """The collection, and the object."""
    metadata = {"name": kind.lower()}
    if kind == "Job":
        template = _template(labels, restartPolicy="Never")
        return "batch/v1/{}/jobs", {"metadata": metadata, "spec": {"template": template}}
    spec: Json = {"selector": {"matchLabels": {"app": "shop"}}, "template": _template(labels)}
    if kind == "StatefulSet":
        spec["serviceName"] = "shop"
    if kind == "DaemonSet":
        # The node is not ready: it has no kubelet.
        spec["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    return f"apps/v1/{{}}/{kind.lower()}s", {"metadata": metadata, "spec": spec}


def _first_pod(site: Injected, owner: str) -> Json:
    """Made by the controller whose object's name is what its pod's begins with."""

    def found() -> Json | None:
        pods = expect(site.plane.admin.get(site.pods))["items"]
        return next((it for it in pods if it["metadata"]["name"].startswith(f"{owner}-")), None)

    it: Json = until(found, what=f"a pod of {owner}")
    return it


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job"])
def test_pods_of_every_workload_get_their_sidecars(site: Injected, kind: str) -> None:
    if kind == "DaemonSet":
        expect(site.plane.admin.post("/api/v1/nodes", {"metadata": {"name": "edge-1"}}))
    path, body = _workload(kind, BOTH)
    where = path.format(f"namespaces/{site.namespace}")
    expect(site.plane.admin.post(f"/apis/{where}", body))
    assert names(_first_pod(site, kind.lower())) == [*IN_CLUSTER, "elector"]


def test_pods_of_a_cronjob_get_their_sidecars(site: Injected) -> None:
    """By the Job that kubectl makes of it, as its controller does."""
    template = {"spec": {"template": _template(BOTH, restartPolicy="Never")}}
    body = {
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": template},
    }
    expect(site.plane.admin.post(f"/apis/batch/v1/namespaces/{site.namespace}/cronjobs", body))
    site.typist.type(
        f"kubectl create job --namespace {site.namespace} --from=cronjob/nightly by-hand"
    )
    assert names(_first_pod(site, "by-hand")) == [*IN_CLUSTER, "elector"]


def test_a_bare_pod_gets_its_sidecars_before_its_own_init_containers(site: Injected) -> None:
    assert names(site.pod({ELECTOR: "shop"})) == ["elector"]
    assert names(site.pod({RELAY: "in-cluster"})) == IN_CLUSTER
    assert names(site.pod({RELAY: "kubeconfig"})) == ["relay", "kubeconfig"]
    own = [{**MAIN, "name": "migrate"}]
    pod = site.pod(BOTH, initContainers=own)
    assert names(pod) == [*IN_CLUSTER, "elector", "migrate"]
    assert _mounts(pod, "migrate")[TOKEN_PATH] == "in-cluster"


@pytest.mark.parametrize("labels", [{ELECTOR: "shop"}, {RELAY: "in-cluster"}])
def test_mirrors_of_static_pods_are_left_alone(site: Injected, labels: Json) -> None:
    """Another spec than that of the file is refused, and kubelet's pod is not seen any more."""
    where = dataclasses.replace(site, namespace=site.plane.create_namespace("free"))
    annotations = {f"kubernetes.io/config.{it}": "file" for it in ("mirror", "source")}
    spec = {"nodeName": "edge-1", "hostNetwork": True}
    mirrors = [where.pod(it, annotations, **spec) for it in ({}, labels)]
    assert mirrors[0]["spec"] == mirrors[1]["spec"]


@pytest.mark.parametrize("mode", ["in-cluster", "kubeconfig"])
def test_the_order_of_containers_is_not_that_of_the_policies(site: Injected, mode: str) -> None:
    """Which the API server draws: here the relay's policy has had its turn, and the elector's has
    not."""
    relayed = site.pod({RELAY: mode})
    spec = {it: relayed["spec"][it] for it in ("initContainers", "volumes")}
    pod = site.pod({ELECTOR: "shop", RELAY: mode}, containers=relayed["spec"]["containers"], **spec)
    assert names(pod) == [*names(relayed), "elector"]
    # Others of the pod, whatever comes after them.
    spec["initContainers"] = [{**MAIN, "name": "migrate"}, *spec["initContainers"]]
    pod = site.pod({ELECTOR: "shop", RELAY: mode}, containers=relayed["spec"]["containers"], **spec)
    assert names(pod) == ["elector", "migrate", *names(relayed)]


def test_a_pod_without_a_label_is_as_it_was_also_where_a_policy_is_broken(site: Injected) -> None:
    plain = site.pod({})
    assert names(plain) == []
    assert [it["name"] for it in plain["spec"]["volumes"]] == [_mounts(plain)[TOKEN_PATH]]
    policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
    policy = f"{policies}/elector.edge-sidecars.io"
    image = "edge-sidecars.io/image"
    kept = expect(site.plane.admin.get(policy))["metadata"]["annotations"][image]
    expect(site.plane.admin.patch(policy, {"metadata": {"annotations": {image: None}}}))
    try:
        # The label alone decides: it fails closed, and no other pod notices.
        until(lambda: site.ask({ELECTOR: "shop"})[0] >= 400, what="the policy is broken")
        assert names(site.pod({})) == []
        assert names(site.pod({RELAY: "in-cluster"})) == IN_CLUSTER
    finally:
        expect(site.plane.admin.patch(policy, {"metadata": {"annotations": {image: kept}}}))
    until(lambda: site.ask({ELECTOR: "shop"})[0] == HTTPStatus.CREATED, what="the policy again")


@pytest.mark.parametrize(
    ("kind", "labels"), [("elector", {ELECTOR: "shop"}), ("relay", {RELAY: "kubeconfig"})]
)
def test_a_pod_that_asks_for_a_sidecar_never_runs_without_one(
    site: Injected, kind: str, labels: Json
) -> None:
    """Each API server of a control plane takes up the policies at its own time, and a binding may
    be deleted."""
    bindings = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
    kept = expect(site.plane.admin.get(f"{bindings}/{kind}.edge-sidecars.io"))
    expect(site.plane.admin.delete(f"{bindings}/{kind}.edge-sidecars.io"))
    try:
        until(lambda: site.ask(labels)[0] >= 400, what="the binding is gone")
        assert site.refusal(labels).startswith(f"no {kind} was added: MutatingAdmissionPolicy")
        assert names(site.pod({})) == []
    finally:
        metadata = {"name": kept["metadata"]["name"]}
        expect(site.plane.admin.post(bindings, {"metadata": metadata, "spec": kept["spec"]}))
    until(lambda: site.ask(labels)[0] == HTTPStatus.CREATED, what="the binding again")


# ── what they look like ──


def test_the_mount_of_the_service_account_is_replaced_and_not_doubled(site: Injected) -> None:
    pod = site.pod(BOTH)
    assert _mounts(pod) == {TOKEN_PATH: "in-cluster"}
    assert _environ(pod) == {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "10550",
    }
    # The elector asks the API server itself.
    own = "/var/run/secrets/edge-sidecars.io/serviceaccount"
    assert _mounts(pod, "elector")[own] == "edge-sidecars-token"
    assert _environ(pod, "elector")["ELECTOR_SERVICE_ACCOUNT_DIR"] == own
    assert "KUBERNETES_SERVICE_HOST" not in _environ(pod, "elector")


@pytest.mark.parametrize("labels", [{ELECTOR: "shop"}, {RELAY: "in-cluster"}, BOTH])
def test_pods_without_a_token_of_their_own_are_served_as_well(site: Injected, labels: Json) -> None:
    pod = site.pod(labels, automountServiceAccountToken=False)
    volumes = [it["name"] for it in pod["spec"]["volumes"]]
    assert volumes.count("edge-sidecars-token") == 1
    assert not any(it.startswith("kube-api-access") for it in volumes)
    mounts = container(pod, "main").get("volumeMounts", [])
    assert [it["name"] for it in mounts] == (["in-cluster"] if RELAY in labels else [])


def test_a_kubeconfig_of_its_own_is_replaced_whole(site: Injected) -> None:
    """As by the component; also where it comes from elsewhere."""
    field = {"fieldRef": {"fieldPath": "metadata.annotations['kubeconfig']"}}
    other = {
        **MAIN,
        "name": "other",
        "env": [{"name": "A", "value": "1"}, {"name": "KUBECONFIG", "value": "/mine"}],
        "volumeMounts": [{"name": "relay-data", "mountPath": "/var/run/relay", "subPath": "x"}],
    }
    third = {**MAIN, "name": "third", "env": [{"name": "KUBECONFIG", "valueFrom": field}]}
    pod = site.pod(
        {RELAY: "kubeconfig"},
        containers=[MAIN, other, third],
        volumes=[{"name": "relay-data", "emptyDir": {}}],
    )
    expected = {"name": "KUBECONFIG", "value": "/var/run/relay/kubeconfig"}
    for name in ("main", "other", "third"):
        assert expected in container(pod, name)["env"]
        mount = {"name": "relay-kubeconfig", "mountPath": "/var/run/relay", "readOnly": True}
        assert mount in container(pod, name)["volumeMounts"]
    assert _environ(pod, "other")["A"] == "1"


def test_an_address_of_the_api_server_from_elsewhere_is_replaced_whole(site: Injected) -> None:
    host = {"fieldRef": {"fieldPath": "status.hostIP"}}
    env = [
        {"name": "KUBERNETES_SERVICE_HOST", "valueFrom": host},
        {"name": "URL", "value": "https://$(KUBERNETES_SERVICE_HOST)"},
    ]
    containers = [{**MAIN, "env": env}, {**MAIN, "name": "b", "env": env[1:]}]
    init = [{**MAIN, "name": "migrate", "env": env}]
    pod = site.pod({RELAY: "in-cluster"}, containers=containers, initContainers=init)
    for name in ("main", "b", "migrate"):
        given = container(pod, name)["env"]
        assert {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"} in given
        assert {"name": "KUBERNETES_SERVICE_PORT", "value": "10550"} in given
        # kubelet puts in only what comes before.
        order = [it["name"] for it in given]
        assert order.index("KUBERNETES_SERVICE_HOST") < order.index("URL")


def test_flags_come_from_the_annotation_and_defaults_from_a_configmap(site: Injected) -> None:
    flags = "--lease-duration=30s  --health-url=http://127.0.0.1:8080/healthz\n--log-format=json"
    elector = container(site.pod({ELECTOR: "shop"}, {ELECTOR_FLAGS: flags}), "elector")
    assert elector["args"] == flags.split()
    assert elector["envFrom"] == [
        {"prefix": "ELECTOR_", "configMapRef": {"name": "elector-flags", "optional": True}}
    ]
    flags = "--preload=configmaps?namespace=$(POD_NAMESPACE) --max-objects=500"
    relay = container(site.pod({RELAY: "in-cluster"}, {RELAY_FLAGS: flags}), "relay")
    assert relay["args"] == flags.split()


@pytest.mark.parametrize(
    ("component", "labels"),
    [("elector-sidecar", {ELECTOR: "shop"}), ("relay-sidecar", {RELAY: "kubeconfig"})],
)
def test_the_label_changes_nothing_beside_the_component(
    site: Injected, component: str, labels: Json, tmp_path: Any
) -> None:
    write_kustomization(
        tmp_path / "built",
        [workload(serviceAccountName="default", containers=[MAIN])],
        components=[component],
    )
    (built,) = [it for it in kustomize(tmp_path / "built") if it["kind"] == "Deployment"]
    spec = built["spec"]["template"]["spec"]
    before, after = (_comparable(site.pod(it, **copy.deepcopy(spec))) for it in ({}, labels))
    assert before == after


@pytest.mark.parametrize(
    ("component", "labels", "name"),
    [
        ("elector-sidecar", {ELECTOR: "shop"}, "elector"),
        ("relay-sidecar", {RELAY: "kubeconfig"}, "relay"),
        ("relay-sidecar", {RELAY: "kubeconfig"}, "kubeconfig"),
    ],
)
def test_an_injected_sidecar_is_that_of_the_component(
    site: Injected, component: str, labels: Json, name: str, tmp_path: Any
) -> None:
    write_kustomization(
        tmp_path / "built",
        [workload(serviceAccountName="default", containers=[MAIN])],
        components=[component],
    )
    (built,) = [it for it in kustomize(tmp_path / "built") if it["kind"] == "Deployment"]
    spec = built["spec"]["template"]["spec"]
    by_component, by_label = (
        container(it, name) for it in (site.pod({}, **spec), site.pod(labels))
    )
    for field in ("image", "restartPolicy", "ports", "resources", "securityContext"):
        assert by_component.get(field) == by_label.get(field), field
    for field in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert by_component.get(field) == by_label.get(field), field
    variables = [{it["name"] for it in each["env"]} for each in (by_component, by_label)]
    assert variables[0] <= variables[1]


def _comparable(pod: Json) -> Json:
    """Without the name of the volume that ServiceAccount admission draws."""
    spec: Json = copy.deepcopy(pod["spec"])
    for it in (*spec["volumes"], *_all_mounts(spec)):
        if it["name"].startswith("kube-api-access"):
            it["name"] = "kube-api-access"
    return spec


def _all_mounts(spec: Json) -> Iterator[Json]:
    for it in (*spec.get("initContainers", ()), *spec["containers"]):
        yield from it.get("volumeMounts", ())


# ── what is refused ──


@pytest.mark.parametrize("text", ["", "No", "a_b", "-a", "a..b"])
def test_a_label_that_is_no_lease_name_is_refused(site: Injected, text: str) -> None:
    status, answer = site.ask({ELECTOR: text})
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "edge-sidecars.io/elector" in answer["message"] or "metadata.labels" in answer["message"]


def test_a_lease_name_of_over_63_characters_is_refused(site: Injected) -> None:
    assert names(site.pod({ELECTOR: "a" * 63})) == ["elector"]
    status, answer = site.ask({ELECTOR: "a" * 64})
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "must be no more than 63" in answer["message"]


@pytest.mark.parametrize(
    "text",
    [
        *("--leader-label=a=b", "--kubeconfig=/x", "--server=https://x", "--context=x"),
        *("--lease=other", "--election=other", "-http=0.0.0.0:80", "--probe-listen=:1"),
        *("--lease-durration=3s", "--lease-duration", "lease-duration=3s", "--shards 3"),
        *("--service-account-dir=/x", "--identity=x", "--namespace=other"),
    ],
)
def test_wrong_flags_of_the_elector_are_refused(site: Injected, text: str) -> None:
    said = site.refusal({ELECTOR: "shop"}, {ELECTOR_FLAGS: f"--log-level=info {text}"})
    assert said.startswith(f"the annotation {ELECTOR_FLAGS}: {text.split()[0]} is not possible")
    assert "--lease-duration" in said


def test_a_flag_that_is_given_twice_is_refused(site: Injected) -> None:
    """As the program does, which would end again and again."""
    twice = "--lease-duration=15s --lease-duration=20s"
    said = site.refusal({ELECTOR: "shop"}, {ELECTOR_FLAGS: f"--log-level=info {twice}"})
    assert said.endswith(f"twice, {twice.replace(' ', ' and ')}: drop one")
    said = site.refusal({RELAY: "in-cluster"}, {RELAY_FLAGS: "--retain=1d --retain=2d"})
    assert said.endswith("--retain is given twice, --retain=1d and --retain=2d: drop one")
    flags = "--preload=pods --preload=services"
    assert "relay" in names(site.pod({RELAY: "in-cluster"}, {RELAY_FLAGS: flags}))


@pytest.mark.parametrize(
    "text",
    [
        *("--server=https://x", "--kubeconfig=/x", "--listen=:1", "--access=caller", "--preload"),
        *("--data-dir=memory", "--prelod=pods", "pods"),
    ],
)
def test_wrong_flags_of_the_relay_are_refused(site: Injected, text: str) -> None:
    said = site.refusal({RELAY: "in-cluster"}, {RELAY_FLAGS: text})
    assert said.startswith(f"the annotation {RELAY_FLAGS}: {text} is not possible here: write")


@pytest.mark.parametrize("labels", [{ELECTOR: "shop"}, {RELAY: "kubeconfig"}])
def test_pods_on_the_nodes_network_and_windows_are_refused(site: Injected, labels: Json) -> None:
    # Pod Security has its own word about hostNetwork: not in this namespace.
    where = dataclasses.replace(site, namespace=site.plane.create_namespace("free"))
    assert where.refusal(labels, hostNetwork=True).startswith("hostNetwork: every pod")
    assert names(where.pod(labels, hostNetwork=False)) != []
    windows = "the sidecars run on Linux only"
    node = {"kubernetes.io/os": "windows"}
    assert where.refusal(labels, nodeSelector=node).startswith(windows)
    main = {"name": "main", "image": "example.com/shop:1"}
    assert where.refusal(labels, containers=[main], os={"name": "windows"}).startswith(windows)
    assert names(where.pod({}, nodeSelector=node)) == []


@pytest.mark.parametrize(
    ("labels", "port"),
    [
        *(({ELECTOR: "shop"}, port) for port in (4040, 4041)),
        *(({RELAY: "kubeconfig"}, port) for port in (10550, 10551)),
    ],
)
def test_declared_ports_that_collide_are_refused(site: Injected, labels: Json, port: int) -> None:
    main = {**MAIN, "ports": [{"containerPort": port}]}
    said = site.refusal(labels, containers=[main])
    assert said.startswith("the container main declares port ")
    assert str(port) in said
    assert names(site.pod({}, containers=[main])) == []


def test_the_electors_port_for_the_main_can_be_moved(site: Injected) -> None:
    main = {**MAIN, "ports": [{"containerPort": 4040}]}
    moved = {ELECTOR_FLAGS: "--listen=127.0.0.1:4050"}
    assert names(site.pod({ELECTOR: "shop"}, moved, containers=[main])) == ["elector"]
    main["ports"] = [{"containerPort": 4050}]
    said = site.refusal({ELECTOR: "shop"}, moved, containers=[main])
    assert said.startswith("the container main declares port 4050 or 4041")
    socket = {ELECTOR_FLAGS: "--listen=unix:/run/elector/socket"}
    assert names(site.pod({ELECTOR: "shop"}, socket, containers=[main])) == ["elector"]


@pytest.mark.parametrize("field", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({ELECTOR: "shop"}, "elector"),
        *(
            ({RELAY: mode}, name)
            for mode in ("kubeconfig", "in-cluster")
            for name in ("relay", "kubeconfig", "in-cluster", "in-cluster-first", "elector")
        ),
    ],
)
def test_a_program_of_the_users_with_a_name_of_ours_is_refused(
    site: Injected, labels: Json, name: str, field: str
) -> None:
    """It never runs without its sidecar."""
    given: Json = {"containers": [MAIN], field: [{**MAIN, "name": name}]}
    said = site.refusal(labels, **given)
    assert said.startswith(f"the container {name} is another program")
    assert said.endswith(f"name yours in another way, like my-{name}")
    assert site.ask({}, **given)[0] == HTTPStatus.CREATED


@pytest.mark.parametrize("text", ["--lease-duration=5s", "--leases", "--leader-elect"])
def test_a_program_with_flags_like_the_electors_is_another_one(site: Injected, text: str) -> None:
    said = site.refusal({ELECTOR: "shop"}, containers=[{**MAIN, "name": "elector", "args": [text]}])
    assert said.startswith("the container elector is another program")


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({ELECTOR: "shop"}, "edge-sidecars-token"),
        ({RELAY: "in-cluster"}, "edge-sidecars-token"),
        ({RELAY: "in-cluster"}, "in-cluster"),
        ({RELAY: "in-cluster"}, "relay-tls"),
        ({RELAY: "kubeconfig"}, "relay-kubeconfig"),
    ],
)
def test_a_volume_of_the_users_with_a_name_of_ours_is_refused(
    site: Injected, labels: Json, name: str
) -> None:
    said = site.refusal(labels, volumes=[{"name": name, "configMap": {"name": "x"}}])
    assert said.startswith(f"the volume {name} is not as the label would make it: name yours")


def test_an_elector_that_is_there_for_another_lease_is_refused(site: Injected) -> None:
    image = "registry.example/elector-sidecar:1"
    there = {**MAIN, "name": "elector", "image": image, "restartPolicy": "Always"}
    env = [{"name": "ELECTOR_LEASE", "value": "orders"}]
    said = site.refusal({ELECTOR: "shop"}, initContainers=[{**there, "env": env}])
    assert said.startswith('the pod has an elector already, for another Lease than "shop"')
    assert names(site.pod({ELECTOR: "orders"}, initContainers=[{**there, "env": env}]))
    for name in ("--lease", "--election", "-election"):
        for args in ([f"{name}=orders"], [name, "orders"]):
            said = site.refusal({ELECTOR: "shop"}, initContainers=[{**there, "args": args}])
            assert said.startswith('the pod has an elector already, for another Lease than "shop"')
        for args in ([f"{name}=shop"], [name, "shop"]):
            assert names(site.pod({ELECTOR: "shop"}, initContainers=[{**there, "args": args}]))


def test_a_relay_of_another_kind_is_refused(site: Injected) -> None:
    said = site.refusal({RELAY: "yes"})
    assert said.startswith(f'the label {RELAY}: "yes" is not possible: choose kubeconfig')


@pytest.mark.parametrize("kind", ["kube-proxy", "kube-flannel"])
def test_pods_of_a_nodes_own_relay_are_left_alone(site: Injected, kind: str) -> None:
    """The label of overlays/node is older, and its selector cannot change."""
    path = MANIFESTS / f"overlays/node/{kind}/daemonset.yaml"
    labels = yaml.safe_load(path.read_text())["spec"]["template"]["metadata"]["labels"]
    assert RELAY in labels
    where = dataclasses.replace(site, namespace=site.plane.create_namespace("free"))
    assert names(where.pod(labels, hostNetwork=True)) == []
    assert where.refusal(labels).startswith(f'the label {RELAY}: "true" is not possible')


DECIDED = (
    (
        {ELECTOR: "shop"},
        ELECTOR_FLAGS,
        ElectorConfig,
        "lease lease_file namespace identity probe_listen leader_label kubeconfig context"
        " server service_account_dir",
    ),
    *(
        (
            {RELAY: mode},
            RELAY_FLAGS,
            RelayConfig,
            "listen pod_listen status_listen tls_cert_file tls_private_key_file server kubeconfig"
            " context service_account_dir client_certificate client_key certificate_authority"
            " tls_server_name"
            " data_dir keep_secrets access access_ttl access_offline_ttl client_ca_file"
            " kubelet_unit local_token_file allowed_host pool pool_connect pool_token_file"
            " endpoint_view pool_listen pool_resource",
        )
        for mode in ("kubeconfig", "in-cluster")
    ),
)


# Refused without a program behind `--`, which an injected container does not have.
OF_A_PROGRAM = {"restart", "stop_before"}


@pytest.mark.parametrize(("labels", "annotation", "config", "decided"), DECIDED)
def test_what_annotations_may_say_are_flags_that_exist(
    site: Injected, labels: Json, annotation: str, config: type, decided: str
) -> None:
    said = site.refusal(labels, {annotation: "x"}).rpartition("one of ")[2].split()
    exist = {it.name for _, it in declared(config)} - OF_A_PROGRAM
    assert set(decided.split()) <= exist
    assert said == sorted(flag(it) for it in exist - set(decided.split()))


@pytest.mark.parametrize(("labels", "annotation", "config", "decided"), DECIDED)
def test_a_configmap_says_nothing_that_an_annotation_may_not(
    site: Injected, labels: Json, annotation: str, config: type, decided: str
) -> None:
    """A variable of the container goes before one of envFrom; who writes ConfigMaps may not write
    pods, and must not lend himself their rights."""
    name = "elector" if config is ElectorConfig else "relay"
    there = {it["name"] for it in container(site.pod(labels), name)["env"]}
    assert {f"{name}_{it}".upper() for it in decided.split()} <= there


# ── both versions ──


@pytest.mark.long
def test_the_older_version_is_the_same_policies(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kubernetes 1.37 still serves it where it is asked to."""
    version = "admissionregistration.k8s.io/v1beta1"
    with (
        ControlPlane(features=["MutatingAdmissionPolicy"], apis=[version]) as plane,
        injected(plane, tmp_path_factory.mktemp("v1beta1"), manifests="v1beta1") as it,
    ):
        assert names(it.pod(BOTH)) == [*IN_CLUSTER, "elector"]
        assert names(it.pod({RELAY: "kubeconfig"})) == ["relay", "kubeconfig"]
        assert names(it.pod({})) == []
    objects = kustomize(MANIFESTS / "injection/v1beta1")
    mutating = [it for it in objects if it["kind"].startswith("Mutating")]
    assert {it["apiVersion"] for it in mutating} == {version}
