"""A rolling update before the real controller, with real electors in the pods (`LivePods`)."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from tests.integration.manifests.live_pods import LEASE, POLL_INTERVAL, LivePods
from tests.unit.manifests.built import named
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.observers.observer import Ready

Json = dict[str, Any]

REPLICAS = 3
# Seconds in which an update ends, on a busy machine.
PATIENCE = 120.0
NEW = "example.com/shop:2"
# Of a surge while all old pods are ending.
MOST_PODS = 4 * REPLICAS


class LiveRollout:
    """Running while it is entered. `objects`: what kustomize built; `main_ends` returns when the
    main of a pod that is deleted has ended."""

    def __init__(
        self,
        plane: ControlPlane,
        objects: Sequence[Json],
        *,
        main_ends: Callable[["LiveRollout"], None],
    ) -> None:
        self._plane = plane
        self.namespace = plane.create_namespace("rollout")
        roles = [it for it in objects if it["kind"] == "Role"]
        rules = [rule for role in roles for rule in role["rules"]]
        self._objects = objects
        self._deployments = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        self._live = LivePods(
            plane,
            self.namespace,
            kubeconfig=plane.kubeconfig_for(self.namespace, "shop", rules),
            most=MOST_PODS,
            main_ends=lambda: main_ends(self),
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        deployment = named(self._objects, "Deployment", "shop")
        deployment["spec"]["replicas"] = REPLICAS
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        expect(self._plane.admin.post(leases, named(self._objects, "Lease", LEASE)))
        self._stack.enter_context(self._live)
        self._stack.callback(self._end)
        expect(self._plane.admin.post(self._deployments, deployment))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _end(self) -> None:
        self._live.is_over = True
        self._plane.admin.delete(f"{self._deployments}/shop")

    @property
    def is_over(self) -> bool:
        return self._live.is_over

    # ── what is done ──

    def settle(self, *, ready: int, image: str) -> None:
        """Returns when all pods are of the image, as many as wanted are ready, and one leads."""

        def is_settled() -> bool:
            pods = self._live.look()
            status = expect(self._plane.admin.get(f"{self._deployments}/shop")).get("status", {})
            return (
                [_image(pod) for pod in pods] == [image] * REPLICAS
                and status.get("readyReplicas") == ready
                and sum(elector.is_leader() for elector in self.running()) == 1
            )

        deadline = time.monotonic() + PATIENCE
        while not is_settled():
            assert time.monotonic() < deadline, [it.name for it in self.running()]
            time.sleep(POLL_INTERVAL)

    def update(self) -> None:
        template = {"spec": {"containers": [{"name": "main", "image": NEW}]}}
        kind = "application/strategic-merge-patch+json"
        patch = {"spec": {"template": template}}
        expect(self._plane.admin.patch(f"{self._deployments}/shop", patch, content_type=kind))

    # ── what is seen ──

    def running(self) -> list[ElectorPod]:
        return self._live.running()

    def answers(self) -> list[Ready]:
        """All 200s of all electors that there were, in the order of their receipt."""
        return self._live.answers()


def _image(pod: Json) -> str:
    image: str = next(it for it in pod["spec"]["containers"] if it["name"] == "main")["image"]
    return image
