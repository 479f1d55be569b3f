"""The resources of injected sidecars: what a namespace's quotas and limits, and pods with pod-level
resources, let in by the label alone or by one annotation."""

import dataclasses
from collections.abc import Iterator

import pytest

from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.injection import (
    ELECTOR,
    MAIN,
    RELAY,
    Injected,
    container,
    injected,
    names,
)
from tests.unit.manifests.built import Json
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.slow

OF_ELECTOR, OF_RELAY = f"{ELECTOR}-resources", f"{RELAY}-resources"
LABELS = (
    {ELECTOR: "shop"},
    {RELAY: "in-cluster"},
    {RELAY: "kubeconfig"},
    {ELECTOR: "shop", RELAY: "in-cluster"},
    {ELECTOR: "shop", RELAY: "kubeconfig"},
)
NAMES = ("cpu", "memory", "ephemeral-storage")
QUANTITIES = {"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1Gi"}
# Of these a quota asks each container (pkg/quota/v1/evaluator/core/pods.go).
REQUIRED = [f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory")]
QUOTAS = [f"{kind}.{name}" for kind in ("requests", "limits") for name in NAMES]


@pytest.fixture(scope="module")
def site(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Injected]:
    with injected(own_plane, tmp_path_factory.mktemp("resources")) as it:
        yield it


@pytest.fixture
def free(site: Injected) -> Injected:
    """Another namespace."""
    return dataclasses.replace(site, namespace=site.plane.create_namespace("free"))


def _main(limits: Json, **requests: str) -> Json:
    return {**MAIN, "resources": {"limits": limits, "requests": requests}}


def _limit(site: Injected, kind: str, spec: Json, *, probe: Json) -> None:
    """Returns when a pod without sidecars, which `spec` does not let in, is refused."""
    path = f"/api/v1/namespaces/{site.namespace}/{kind}"
    expect(site.plane.admin.post(path, {"metadata": {"name": "limits"}, "spec": spec}))
    if kind == "resourcequotas":
        # As its controller does, which does not run here: admission goes by the status.
        status = {"hard": spec["hard"], "used": dict.fromkeys(spec["hard"], "0")}
        expect(site.plane.admin.patch(f"{path}/limits/status", {"status": status}))
    until(lambda: site.ask({}, containers=[probe])[0] == 403, what=f"the {kind} are in force")


@pytest.mark.parametrize("names_of_quota", [QUOTAS, *([it] for it in REQUIRED)], ids=",".join)
def test_a_quota_lets_pods_with_the_label_alone_in(
    free: Injected, names_of_quota: list[str]
) -> None:
    _limit(free, "resourcequotas", {"hard": dict.fromkeys(names_of_quota, "100Gi")}, probe=MAIN)
    for labels in LABELS:
        assert names(free.pod(labels, containers=[_main(QUANTITIES)])) != []


def test_a_limit_is_set_only_where_all_containers_have_one(site: Injected) -> None:
    """Without one nothing throttles a renewal, and no log evicts the pod."""
    for containers, expected in (
        ([MAIN], ["memory"]),
        ([_main(QUANTITIES), {**MAIN, "name": "b"}], ["memory"]),
        ([_main({"cpu": "1"})], ["cpu", "memory"]),
        ([_main(QUANTITIES)], ["cpu", "ephemeral-storage", "memory"]),
    ):
        pod = site.pod({ELECTOR: "shop", RELAY: "in-cluster"}, containers=containers)
        for name in names(pod):
            assert sorted(container(pod, name)["resources"]["limits"]) == expected, name


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"min": {"memory": "64Mi"}}, "requests.memory=64Mi"),
        ({"max": {"memory": "128Mi"}}, "limits.memory=128Mi"),
        (
            {"min": {"memory": "64Mi"}, "max": {"memory": "128Mi"}},
            "requests.memory=64Mi limits.memory=128Mi",
        ),
        ({"min": {"cpu": "50m"}, "max": {"cpu": "200m"}}, "requests.cpu=50m limits.cpu=200m"),
    ],
)
def test_a_limit_range_lets_pods_in_by_one_annotation(
    free: Injected, limits: Json, says: str
) -> None:
    name = next(iter(limits[next(iter(limits))]))
    probe = _main({name: "100Gi"} if "max" in limits else {}, **{name: "1m"})
    _limit(free, "limitranges", {"limits": [{"type": "Container", **limits}]}, probe=probe)
    main = _main({"cpu": "100m", "memory": "100Mi"})
    for labels in LABELS:
        annotations = {f"{it}-resources": says for it in labels}
        assert names(free.pod(labels, annotations, containers=[main])) != []


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"memory": "64Mi"}},
        {"requests": {"memory": "64Mi", "cpu": "10m"}},
        {"limits": {"memory": "64Mi", "cpu": "500m"}},
        {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    ],
)
def test_pods_with_pod_level_resources_are_let_in_and_share_them(
    site: Injected, resources: Json
) -> None:
    shared = {name for each in resources.values() for name in each}
    for labels in LABELS:
        pod = site.pod(labels, resources=resources)
        assert names(pod) != []
        for name in names(pod):
            given = container(pod, name)["resources"]
            assert not shared & {*given.get("requests", {}), *given.get("limits", {})}, name


def _resources(pod: Json) -> Json:
    return {name: container(pod, name)["resources"] for name in names(pod)}


def test_an_annotation_says_the_resources_of_the_elector(site: Injected) -> None:
    says = "requests.cpu=20m limits.cpu=1\n requests.memory=64Mi  limits.memory=128Mi"
    pod = site.pod({ELECTOR: "shop"}, {OF_ELECTOR: says})
    assert _resources(pod)["elector"] == {
        "requests": {"cpu": "20m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
        "limits": {"cpu": "1", "memory": "128Mi"},
    }


def test_a_default_gives_way_to_what_would_contradict_it(site: Injected) -> None:
    for says, expected in (
        ("requests.memory=200Mi", ("200Mi", "200Mi")),
        ("limits.memory=32Mi", ("32Mi", "32Mi")),
        ("requests.memory=60Mi", ("60Mi", "96Mi")),
    ):
        given = _resources(site.pod({ELECTOR: "shop"}, {OF_ELECTOR: says}))["elector"]
        assert (given["requests"]["memory"], given["limits"]["memory"]) == expected


def test_an_annotation_is_for_all_containers_of_the_relay_or_for_one(site: Injected) -> None:
    says = "limits.cpu=300m relay.limits.memory=512Mi in-cluster.requests.memory=20Mi"
    given = _resources(site.pod({RELAY: "in-cluster"}, {OF_RELAY: says}))
    assert {it["limits"]["cpu"] for it in given.values()} == {"300m"}
    assert given["relay"]["limits"]["memory"] == "512Mi"
    assert given["in-cluster-first"]["limits"]["memory"] == "64Mi"
    assert given["in-cluster"]["requests"]["memory"] == "20Mi"
    says = "kubeconfig.requests.memory=40Mi"
    given = _resources(site.pod({RELAY: "kubeconfig"}, {OF_RELAY: says}))
    assert given["kubeconfig"]["requests"]["memory"] == "40Mi"
    assert given["relay"]["requests"]["memory"] == "64Mi"


def test_a_configmap_says_them_for_a_namespace_and_an_annotation_wins(free: Injected) -> None:
    labels = {ELECTOR: "shop", RELAY: "kubeconfig"}
    path = f"/api/v1/namespaces/{free.namespace}/configmaps"
    for name in ("elector-flags", "relay-flags"):
        data = {"RESOURCES": "requests.memory=70Mi\nlimits.cpu=300m\n", "LOG_LEVEL": "debug"}
        expect(free.plane.admin.post(path, {"metadata": {"name": name}, "data": data}))

    def given(says: str = "") -> Json:
        return _resources(free.pod(labels, {OF_ELECTOR: says} if says else None))

    def are_in_force() -> bool:
        return all(it["limits"].get("cpu") == "300m" for it in given().values())

    until(are_in_force, what="the ConfigMaps")
    # The API server runs policies in no certain order, and none of them matters.
    for _ in range(10):
        assert {it["requests"]["memory"] for it in given().values()} == {"70Mi"}
    elector = given("requests.memory=50Mi")["elector"]
    assert (elector["requests"]["memory"], elector["limits"]["cpu"]) == ("50Mi", "300m")
    # What is wrong in it is refused as in the annotation.
    wrong = {"data": {"RESOURCES": "cpu=1"}}
    expect(free.plane.admin.patch(f"{path}/elector-flags", wrong))
    until(lambda: free.ask(labels)[0] >= 400, what="the wrong ConfigMap")
    assert f"the annotation {OF_ELECTOR}: cpu=1 is not possible here" in free.refusal(labels)


@pytest.mark.parametrize(
    "says",
    [
        *("cpu=1", "requests.cpu", "requests.cpu=", "limits.memory=much", "limits.cpu=-1"),
        *("limit.cpu=1", "limits.gpu=1", "limits.cpu=1,limits.memory=1Gi"),
    ],
)
def test_what_are_no_resources_is_refused(site: Injected, says: str) -> None:
    for labels, annotation in (
        ({ELECTOR: "shop"}, OF_ELECTOR),
        ({RELAY: "in-cluster"}, OF_RELAY),
    ):
        said = site.refusal(labels, {annotation: f"requests.cpu=10m {says}"})
        assert said.startswith(f"the annotation {annotation}: {says} is not possible here: write")
        assert said.endswith("requests.memory=64Mi limits.cpu=500m")
    said = site.refusal({ELECTOR: "shop"}, {OF_ELECTOR: "relay.limits.cpu=1"})
    assert "relay.limits.cpu=1 is not possible here" in said
