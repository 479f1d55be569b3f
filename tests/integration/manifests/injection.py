"""A cluster with manifests/injection, and pods that ask for a sidecar by a label."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.integration.manifests.gm_and_lc import until
from tests.integration.manifests.typist import Typist
from tests.unit.manifests.built import Json
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane

ELECTOR, RELAY = "edge-sidecars.io/elector", "edge-sidecars.io/relay"
ELECTOR_FLAGS, RELAY_FLAGS = f"{ELECTOR}-flags", f"{RELAY}-flags"
APPLY = "kubectl apply --server-side --validate=strict"
# What Pod Security "restricted" asks of a container.
RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
MAIN = {"name": "main", "image": "example.com/shop:1", "securityContext": RESTRICTED}


@dataclass(frozen=True)
class Injected:
    """`namespace` enforces Pod Security "restricted"."""

    plane: ControlPlane
    namespace: str
    typist: Typist

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def ask(
        self,
        labels: Json,
        annotations: Json | None = None,
        *,
        containers: Sequence[Json] = (MAIN,),
        **spec: Any,
    ) -> tuple[int, Json]:
        """The answer to a bare pod."""
        metadata = {"generateName": "pod-", "labels": labels, "annotations": annotations or {}}
        body = {"metadata": metadata, "spec": {"containers": list(containers), **spec}}
        return self.plane.admin.post(self.pods, body)

    def pod(self, labels: Json, annotations: Json | None = None, **spec: Any) -> Json:
        return expect(self.ask(labels, annotations, **spec))

    def refusal(self, labels: Json, annotations: Json | None = None, **spec: Any) -> str:
        """The reason that a policy of ours gives."""
        status, answer = self.ask(labels, annotations, **spec)
        assert status == HTTPStatus.UNPROCESSABLE_ENTITY, answer
        return str(answer["message"]).partition("denied request: ")[2]


@contextmanager
def injected(plane: ControlPlane, folder: Path, *, manifests: str = "") -> Iterator[Injected]:
    """`manifests`: a folder below manifests/injection."""
    namespace = plane.create_namespace("shop")
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    expect(plane.admin.patch(f"/api/v1/namespaces/{namespace}", level))
    source = f"edge-sidecars/manifests/injection/{manifests}"
    it = Injected(plane, namespace, Typist(plane, folder))
    # Of a version that goes with Kubernetes 1.40, which 1.37 begins to say.
    warning = rf"/{manifests} Mutating\w+ is deprecated in v1\.37\+" if manifests else "no warning"
    it.typist.type(f"{APPLY} -k {source}", warning=warning)
    # Of the API server's own watches of policies, bindings and their parameters.
    until(
        lambda: (
            names(it.ask({ELECTOR: "shop"})[1]) == ["elector"]
            and "relay" in names(it.ask({RELAY: "kubeconfig"})[1])
            and it.ask({ELECTOR: "No"})[0] == HTTPStatus.UNPROCESSABLE_ENTITY
            and it.ask({RELAY: "no"})[0] == HTTPStatus.UNPROCESSABLE_ENTITY
        ),
        what="the policies are in force",
    )
    try:
        yield it
    finally:
        it.typist.type(f"kubectl delete -k {source}", warning=warning)


def names(pod: Json) -> list[str]:
    """Of the init containers, in their order."""
    return [it["name"] for it in pod.get("spec", {}).get("initContainers", ())]


def container(pod: Json, name: str) -> Json:
    everything: list[Json] = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    (found,) = [it for it in everything if it["name"] == name]
    return found
