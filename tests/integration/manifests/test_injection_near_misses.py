"""What is meant for manifests/injection and reaches nothing is warned of when it is applied, with
the line to write; so is what its pods would be refused for."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.injection import (
    ELECTOR,
    ELECTOR_FLAGS,
    MAIN,
    RELAY,
    RELAY_FLAGS,
    Injected,
    injected,
    names,
)
from tests.unit.manifests.built import MANIFESTS, Json
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.slow

RESOURCES = f"{ELECTOR}-resources"
KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


@pytest.fixture(scope="module")
def site(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Injected]:
    with injected(own_plane, tmp_path_factory.mktemp("near-misses")) as it:
        misplaced: Json = {"kind": "Pod", "annotations": {ELECTOR: "shop"}}
        until(lambda: _warnings(it, **misplaced), what="the warnings are in force")
        until(lambda: _warnings(it, labels={ELECTOR: "No"}), what="those of templates too")
        yield it


def _object(kind: str, own: Json, metadata: Json, spec: Json) -> Json:
    """`own`: the metadata of the object, `metadata`: that of its pods."""
    group = {"Pod": "v1", "Namespace": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}
    it: Json = {"apiVersion": group.get(kind, "apps/v1"), "kind": kind}
    if kind in ("Pod", "Namespace"):
        it["metadata"] = {"name": "shop", **own, **metadata}
        return it if kind == "Namespace" else {**it, "spec": spec}
    it["metadata"] = {"name": "shop", **own}
    metadata = {**metadata, "labels": {"app": "shop", **metadata.get("labels", {})}}
    if kind in ("Job", "CronJob"):
        template = {"metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}
        job = {"template": template}
        cron = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
        return {**it, "spec": job if kind == "Job" else cron}
    it["spec"] = {
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {"metadata": metadata, "spec": spec},
    }
    if kind == "StatefulSet":
        it["spec"]["serviceName"] = "shop"
    return it


def _warnings(
    site: Injected, kind: str = "Deployment", own: Json | None = None, **given: Any
) -> list[str]:
    """Of `kubectl apply`, which takes the object in each case. `labels` and `annotations` are those
    of pods, the rest is their spec."""
    metadata: Json = {it: given.pop(it) for it in ("labels", "annotations") if it in given}
    return _applied(site, _object(kind, own or {}, metadata, {"containers": [MAIN], **given}))


def _applied(site: Injected, body: Json) -> list[str]:
    script = f"kubectl apply --dry-run=server --namespace {site.namespace} -f - 2>&1 <<'EOF'\n"
    said = site.typist.type(f"{script}{json.dumps(body)}\nEOF").splitlines()
    assert "(server dry run)" in said[-1]
    return [it.partition("': ")[2] or it for it in said[:-1] if it.startswith("Warning: ")]


def _warning(site: Injected, *given: Any, **more: Any) -> str:
    """The only one, with what it asks for behind the policy's name."""
    (it,) = _warnings(site, *given, **more)
    return it.rpartition("denied request: ")[2] or it


def _path(kind: str) -> str:
    return {
        "Pod": "metadata",
        "CronJob": "spec.jobTemplate.spec.template.metadata",
    }.get(kind, "spec.template.metadata")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("key", "value"), [(ELECTOR, "shop"), (RELAY, "in-cluster")])
def test_a_label_beside_the_template_is_warned_of(
    site: Injected, kind: str, key: str, value: str
) -> None:
    said = _warning(site, kind, {"labels": {key: value}})
    assert f"the label {key} is on the {kind} and adds nothing to its pods" in said
    assert said.endswith(f"write {key}: {value} below {_path(kind)}.labels")
    # On both, as kustomize puts labels, it is fine.
    assert _warnings(site, kind, {"labels": {key: value}}, labels={key: value}) == []


def test_a_label_between_a_cronjob_and_its_pods_is_warned_of(site: Injected) -> None:
    body = _object("CronJob", {}, {}, {"containers": [MAIN]})
    body["spec"]["jobTemplate"]["metadata"] = {"labels": {ELECTOR: "shop"}}
    (said,) = _applied(site, body)
    assert said.endswith(f"write {ELECTOR}: shop below {_path('CronJob')}.labels")


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_workloads_that_few_write_by_hand_are_warned_of_too(site: Injected, kind: str) -> None:
    body = _object("Deployment", {"labels": {ELECTOR: "shop"}}, {}, {"containers": [MAIN]})
    body["kind"] = kind
    if kind == "ReplicationController":
        body["apiVersion"] = "v1"
        body["spec"]["selector"] = body["spec"]["selector"]["matchLabels"]
    (said,) = _applied(site, body)
    assert f"the label {ELECTOR} is on the {kind} and adds nothing" in said


def test_a_label_of_a_pod_that_is_there_is_warned_of(site: Injected) -> None:
    name = site.pod({"app": "shop"})["metadata"]["name"]
    change = f"kubectl --namespace {site.namespace} label --overwrite pod {name}"
    late = "of a pod that is there already adds, changes and removes nothing"
    for word in (f"{ELECTOR}=shop", f"{ELECTOR}=orders", f"{ELECTOR}-", f"{RELAY}=kubeconfig"):
        assert late in site.typist.type(f"{change} {word} 2>&1"), word
    for word in ("app=other", "app-", f"{RELAY}=kubeconfig"):
        assert "Warning" not in site.typist.type(f"{change} {word} 2>&1"), word


def test_a_key_of_a_configmap_that_nothing_reads_is_warned_of(site: Injected) -> None:
    def said(name: str, key: str) -> list[str]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {key: "30s"}}
        return _applied(site, {**body, "metadata": {"name": name}})

    until(lambda: said("elector-flags", "x"), what="the warnings are in force")
    for name, key in (
        ("elector-flags", "ELECTOR_LEASE_DURATION"),
        ("elector-flags", "lease-duration"),
        ("elector-flags", "SERVER"),
        ("relay-flags", "LEASE_DURATION"),
    ):
        (line,) = said(name, key)
        assert f"the key {key} of the ConfigMap {name} means nothing" in line
    assert said("elector-flags", "LEASE_DURATION") == said("relay-flags", "RETAIN") == []
    assert said("flags", "x") == []


def test_a_label_of_the_namespace_is_warned_of(site: Injected) -> None:
    said = _warning(site, "Namespace", {"labels": {ELECTOR: "shop"}})
    assert f"the label {ELECTOR} of a namespace adds nothing to its pods" in said


@pytest.mark.parametrize("kind", [*KINDS, "Pod"])
def test_a_label_written_as_an_annotation_is_warned_of(site: Injected, kind: str) -> None:
    line = f"write {RELAY}: kubeconfig below {_path(kind)}.labels"
    assert _warning(site, kind, annotations={RELAY: "kubeconfig"}).endswith(line)
    if kind != "Pod":
        own = {"annotations": {RELAY: "kubeconfig"}}
        assert _warning(site, kind, own).endswith(line)


def test_settings_without_their_label_or_beside_the_template_are_warned_of(site: Injected) -> None:
    flags = {ELECTOR_FLAGS: "--lease-duration=30s"}
    assert _warning(site, annotations=flags).endswith(
        f"write {ELECTOR}: LEASE below spec.template.metadata.labels"
    )
    labels = {ELECTOR: "shop"}
    below = f"{ELECTOR_FLAGS} is read from annotations of pods only: write it below spec.template"
    assert below in _warning(site, own={"annotations": flags}, labels=labels)
    label = {RESOURCES: "limits.cpu"}
    said = _warning(site, own={"labels": label}, labels=labels)
    assert f"{RESOURCES} is read from annotations of pods only" in said
    assert _warnings(site, labels=labels, annotations=flags) == []


@pytest.mark.parametrize(
    "key",
    [
        *(f"{ELECTOR}-flag", f"{RELAY}-resource", f"{ELECTOR}s", "edge-sidecar.io/elector"),
        *("edge-sidecars.io/Elector", "edgesidecars.io/relay", "elector.edge-sidecars.io"),
        *("edge-sidecars.com/relay", "edge-sidecars.io/leader-elector"),
    ],
)
def test_a_mistyped_key_is_warned_of(site: Injected, key: str) -> None:
    for where in ("labels", "annotations"):
        said = _warning(site, **{where: {key: "x"}})
        assert f"{key} means nothing: there are the labels {ELECTOR}, {RELAY}" in said


@pytest.mark.parametrize("text", ["true", "false", "yes", "no", "on", "enabled"])
def test_a_switch_instead_of_a_lease_is_refused_and_warned_of(site: Injected, text: str) -> None:
    line = f"write the name of yours, like {ELECTOR}: shop, or remove the label"
    assert line in site.refusal({ELECTOR: text})
    for kind in KINDS:
        assert line in _warning(site, kind, labels={ELECTOR: text})


ELECTOR_VALUES = (
    ("--lease-duration=3x", "--lease-duration=15s"),
    ("--renew-interval=", "--renew-interval=15s"),
    ("--health-failures=three", "--health-failures=3"),
    ("--shards=1", "--shards=64"),
    ("--shards=257", "--shards=64"),
    ("--health-url=127.0.0.1:80", "--health-url=http://127.0.0.1:8080/healthz"),
    ("--listen=4040", "--listen=127.0.0.1:4040"),
    ("--log-level=verbose", "--log-level=info"),
    ("--log-format=yaml", "--log-format=json"),
    ("--on-missing=create", "--on-missing=wait"),
    ("--release-on-term=maybe", "--release-on-term=true"),
    ("--socket-mode=rw", "--socket-mode=0660"),
)
RELAY_VALUES = (
    ("--retain=forever", "--retain=15s"),
    ("--max-objects=-1", "--max-objects=1000"),
    ("--memory-budget=1Ti", "--memory-budget=128Mi"),
    ("--reads=cached", "--reads=cache"),
)


@pytest.mark.parametrize(
    ("key", "annotation", "wrong", "line"),
    [
        *((ELECTOR, ELECTOR_FLAGS, *each) for each in ELECTOR_VALUES),
        *((RELAY, RELAY_FLAGS, *each) for each in RELAY_VALUES),
    ],
)
def test_a_bad_value_of_a_flag_is_refused_and_warned_of(
    site: Injected, key: str, annotation: str, wrong: str, line: str
) -> None:
    labels, flags = {key: "in-cluster"}, {annotation: f"--log-level=info {wrong}"}
    expected = (
        f"the annotation {annotation}: {wrong} has no value that this flag takes: write {line}"
    )
    assert site.refusal(labels, flags) == expected
    assert _warning(site, labels=labels, annotations=flags).endswith(expected)


def test_values_that_flags_take_are_admitted(site: Injected) -> None:
    """Also what kubelet puts in later."""
    flags = (
        "--lease-duration=1m30s --renew-interval=2.5s --request-timeout=500ms --health-grace=20"
        " --shards=256 --on-missing=wait --listen=unix:/run/e --socket-mode=0660"
        " --release-on-term=TRUE --health-url=http://$(POD_IP):80/ --drain-timeout=$(DRAIN)"
    )
    assert names(site.pod({ELECTOR: "shop"}, {ELECTOR_FLAGS: flags})) == ["elector"]
    flags = "--memory-budget=64Mi --retain=7d --max-objects=5 --reads=upstream --log-refusals=true"
    assert "relay" in names(site.pod({RELAY: "in-cluster"}, {RELAY_FLAGS: flags}))


def test_what_pods_are_refused_for_is_warned_of_at_the_template(site: Injected) -> None:
    labels = {ELECTOR: "shop", RELAY: "kubeconfig"}
    said = _warnings(site, labels=labels, hostNetwork=True)
    assert len([it for it in said if "hostNetwork: every pod" in it]) == 2
    other = [{**MAIN, "name": "elector"}]
    line = _warning(site, labels={ELECTOR: "shop"}, containers=other)
    assert "the container elector is another program" in line


def test_what_manifests_have_is_not_warned_of(site: Injected) -> None:
    built = [
        it
        for folder in ("relay", "active-standby-service", "active-active-shards", "pool")
        for it in kustomize(MANIFESTS / "overlays" / folder)
    ]
    proxy = yaml.safe_load((MANIFESTS / "overlays/node/kube-proxy/daemonset.yaml").read_text())
    template = proxy["spec"]["template"]
    template["spec"]["hostNetwork"] = True
    template["spec"]["containers"] = [{"name": "kube-proxy", "image": "example.com/proxy:1"}]
    template["metadata"]["labels"]["app"] = "proxy"
    proxy["spec"]["selector"] = {"matchLabels": {"app": "proxy"}}
    workloads = [it for it in (*built, proxy) if it["kind"] in KINDS]
    assert len(workloads) > len(KINDS)
    for it in workloads:
        it["metadata"].pop("namespace", None)
        assert [said for said in _applied(site, it) if "edge-sidecars.io" in said] == []
