"""manifests/keep-while-cut-policy on a real API server: tolerations by a label of the namespace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.typist import Typist
from tests.unit.manifests.built import Json
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program

pytestmark = pytest.mark.slow

SOURCE = "edge-sidecars/manifests/keep-while-cut-policy"
LABEL = "pool.edge-sidecars.io/keep-while-cut"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
DEAD = "pool.edge-sidecars.io/dead"
EXISTS = {"operator": "Exists", "effect": "NoExecute"}
# As the API server gives them to each pod that says nothing.
DEFAULTS = [
    {"key": NOT_READY, **EXISTS, "tolerationSeconds": 300},
    {"key": UNREACHABLE, **EXISTS, "tolerationSeconds": 300},
]
KEPT = {"key": UNREACHABLE, **EXISTS}
A_MINUTE = {"key": DEAD, **EXISTS, "tolerationSeconds": 60}

# The tolerations of a pod that the API server has made, of one that brings these.
Tolerations = Callable[..., list[Json]]


def _maker(plane: ControlPlane, namespace: str) -> Tolerations:
    def make(*brought: Json, **metadata: Json) -> list[Json]:
        spec: Json = {"containers": [{"name": "main", "image": "example.com/shop:1"}]}
        if brought:
            spec["tolerations"] = list(brought)
        if metadata:
            spec["nodeName"] = "edge-1"
        body = {"metadata": {"generateName": "pod-", **metadata}, "spec": spec}
        pod = expect(plane.admin.post(f"/api/v1/namespaces/{namespace}/pods", body))
        found: list[Json] = pod["spec"].get("tolerations", [])
        return found

    return make


@contextmanager
def _site(plane: ControlPlane, folder: Path) -> Iterator[Tolerations]:
    """With the policy, and in a namespace with the label."""
    typist = Typist(plane, folder)
    typist.type(f"kubectl apply --server-side --validate=strict -k {SOURCE}")
    namespace = plane.create_namespace("site")
    typist.type(f"kubectl label namespace {namespace} {LABEL}=true")
    make = _maker(plane, namespace)
    # Of the API server's own watches of policies, bindings and namespaces.
    until(lambda: A_MINUTE in make(), what="the policy is in force")
    yield make
    typist.type(f"kubectl delete -k {SOURCE}")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    with ControlPlane() as it:
        yield it


@pytest.fixture(scope="module")
def pod(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tolerations]:
    with _site(plane, tmp_path_factory.mktemp("policy")) as make:
        yield make


def test_a_pod_that_says_nothing_stays_until_its_node_is_dead(pod: Tolerations) -> None:
    """In the place of the API server's entry: taint eviction takes the first that matches."""
    assert pod() == [DEFAULTS[0], KEPT, A_MINUTE]


def test_a_pod_keeps_what_it_says_itself(pod: Tolerations) -> None:
    other: Json = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert pod(other) == [other, DEFAULTS[0], KEPT, A_MINUTE]
    impatient = {**KEPT, "tolerationSeconds": 20}
    assert pod(impatient) == [impatient, DEFAULTS[0], A_MINUTE]
    patient = {**A_MINUTE, "tolerationSeconds": 3600}
    assert pod(patient) == [patient, DEFAULTS[0], KEPT]
    by_component = [KEPT, {**A_MINUTE, "tolerationSeconds": 5}]
    assert pod(*by_component) == [*by_component, DEFAULTS[0]]
    assert pod({"operator": "Exists"}) == [{"operator": "Exists"}]


def test_other_namespaces_and_mirrors_of_static_pods_are_left_alone(
    plane: ControlPlane, pod: Tolerations
) -> None:
    assert _maker(plane, plane.create_namespace("cloud"))() == DEFAULTS
    annotations = {f"kubernetes.io/config.{it}": "file" for it in ("mirror", "source")}
    assert pod(annotations=annotations) == DEFAULTS


@pytest.mark.long
def test_a_pod_without_the_defaults_gets_both(tmp_path: Path) -> None:
    """Where the API server does not run its plugin DefaultTolerationSeconds."""
    with (
        ControlPlane(without_plugins=["DefaultTolerationSeconds"]) as plane,
        _site(plane, tmp_path) as make,
    ):
        assert make() == [KEPT, A_MINUTE]
