"""GMs, LCs, kubelets and the API server with its controllers, put together in one of the modes.

Owns one namespace and all processes in it. Guarantees: nodes are the system's own; whatever a test
does to its parts, the end leaves no process behind.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from edge_sidecars.sedna_api.core.kinds import kind_named
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.pods.components import EdgeComponent, GmComponent
from tools.harness.pods.edge_node import RELAY, EdgeNode
from tools.harness.pods.gm import LEASE_FLAGS, GmPod
from tools.harness.pods.kubelet.node_processes import Machine
from tools.harness.pods.kubelet.pod_plan import PodPlan
from tools.harness.pods.kubelet.stand_in import Kubelet
from tools.harness.pods.observers.api_observer import ApiObserver
from tools.harness.pods.wire.caller import Caller

Json = dict[str, Any]

ACTIVE_STANDBY, ACTIVE_ACTIVE = "active-standby", "active-active"
MODES = (ACTIVE_STANDBY, ACTIVE_ACTIVE, RELAY)
# Seconds in which something that is waited for must be so, on a busy machine.
PATIENCE = 60.0
POLL_INTERVAL = 0.1
# So that a test need not wait for what takes a minute in the field.
LC_FLAGS = ("--dataset-interval=1s", "--redial-cap=2s")

GmT_co = TypeVar("GmT_co", bound=GmComponent, covariant=True)
EdgeT_co = TypeVar("EdgeT_co", bound=EdgeComponent, covariant=True)


class AnySystem(Generic[GmT_co, EdgeT_co]):
    """Of parts that are made already, in a namespace of their own, and that it starts and stops:
    `edges` by what tests call their nodes. `clouds` names nodes without an LC, whose file systems
    are in `folder`; what workers print is there too. `spares`: so many of the last GMs are for
    somebody else to start."""

    def __init__(
        self,
        plane: ApiServer,
        folder: Path,
        *,
        mode: str,
        namespace: str,
        gms: Sequence[GmT_co],
        edges: Mapping[str, EdgeT_co],
        clouds: Sequence[str],
        plan_of: Callable[[Json], PodPlan],
        image: Path | None = None,
        spares: int = 0,
    ) -> None:
        self.plane = plane
        self.mode = mode
        self._spares = spares
        self.namespace = namespace
        self._admin = plane.admin
        self._stack = ExitStack()
        self._folder = folder
        self.gms = list(gms)
        self.edges: Mapping[str, EdgeT_co] = dict(edges)
        self.caller = Caller(plane.server, context=plane.tls())
        machines = {self.node(name): Machine(folder / name) for name in clouds}
        machines |= {it.name: Machine(it.lc.root, it.lc.url) for it in edges.values()}
        self.kubelet = Kubelet(
            self.caller,
            list(machines),
            logs=folder / "logs",
            plan_of=plan_of,
            machines=machines,
            folder=image,
            guardian=plane.guardian,
        )
        self.api_observer = ApiObserver(self.caller, self.namespace)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for pod in self.gms:
                stack.callback(pod.stop)
            for edge in self.edges.values():
                stack.callback(edge.stop)
            stack.enter_context(self.api_observer)
            stack.enter_context(self.kubelet)
            first = self.gms[: len(self.gms) - self._spares]
            for pod in first:
                pod.start(wait=False)
            for edge in self.edges.values():
                edge.start()
            for pod in first:
                pod.wait_ready()
            for edge in self.edges.values():
                edge.lc.wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        # What is left there is the namespace controller's to remove.
        self._admin.delete(f"/api/v1/namespaces/{self.namespace}")

    # ── the API ──

    def node(self, name: str) -> str:
        """A node's name in the cluster, which other systems share."""
        return node(name, self.namespace)

    def apply(self, manifest: Json) -> Json:
        """Creates an object; its nodes are named as in the constructor."""
        kind = kind_named(manifest["kind"])
        assert kind is not None, manifest
        body = self._placed(manifest)
        return expect(self._admin.post(kind.collection(self.namespace), body))

    def get(self, kind: str, name: str) -> Json:
        """Fails where there is none."""
        return expect(self._admin.get(self._path(kind, name)))

    def patch(self, kind: str, name: str, patch: Json) -> Json:
        return expect(self._admin.patch(self._path(kind, name), patch))

    def delete(self, kind: str, name: str) -> None:
        expect(self._admin.delete(self._path(kind, name)))

    def _path(self, kind: str, name: str) -> str:
        found = kind_named(kind)
        assert found is not None, kind
        return found.path(self.namespace, name)

    def _placed(self, part: Any) -> Any:
        if isinstance(part, list):
            return [self._placed(each) for each in part]
        if not isinstance(part, dict):
            return part
        return {
            key: self.node(value) if key == "nodeName" else self._placed(value)
            for key, value in part.items()
        }

    # ── what is waited for ──

    def until(self, is_so: Callable[[], Any], *, what: str, timeout: float = PATIENCE) -> Any:
        """The first answer that is true; fails with what every process said last."""
        deadline = time.monotonic() + timeout
        while not (found := is_so()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s: {what}\n{self.told()}")
            time.sleep(POLL_INTERVAL)
        return found

    def wait_for(
        self,
        kind: str,
        name: str,
        is_so: Callable[[Json], object],
        *,
        what: str,
        timeout: float = PATIENCE,
    ) -> Json:
        """The first state of an object of which that is true."""
        seen: list[Json] = []

        def look() -> Json | None:
            seen[:] = [self.get(kind, name)]
            return seen[0] if is_so(seen[0]) else None

        try:
            found: Json = self.until(look, what=f"{kind} {name}: {what}", timeout=timeout)
        except AssertionError as error:
            status = seen[0].get("status") if seen else None
            raise AssertionError(f"{error}\n{kind} {name}: {status}") from None
        return found

    def told(self) -> str:
        """The end of every log."""
        logs = [(pod.name, pod.gm.log_text()) for pod in self.gms]
        logs += [(name, edge.lc.log_text()) for name, edge in self.edges.items()]
        return "\n".join(f"── {name}\n{text[-1500:]}" for name, text in logs)

    # ── what is promised ──

    def wrong_stores(self) -> list[str]:
        """What LCs know and the API does not have, or the other way round."""
        found = []
        for edge in self.edges.values():
            wanted = self.api_observer.concerning(edge.name)
            answer = edge.lc.ask("/sedna/objects").json()["objects"]
            has = {(it["kind"], it["name"]): (it["uid"], it["resourceVersion"]) for it in answer}
            if has != wanted:
                differing = {
                    key: (has.get(key), wanted.get(key))
                    for key in has.keys() | wanted.keys()
                    if has.get(key) != wanted.get(key)
                }
                found.append(f"{edge.name} (has, wanted): {dict(sorted(differing.items())[:5])}")
        return found

    def unsettled_reports(self) -> list[str]:
        """Reports that LCs still have, that were refused although their object is there, or that no
        status has taken in."""
        found = []
        for edge in self.edges.values():
            reports = edge.lc.status()["reports"]
            there = {uid for uid, _ in self.api_observer.concerning(edge.name).values()}
            if reports["waiting"]:
                found.append(f"{edge.name}: {reports['waiting']} reports wait")
            found += [
                f"{edge.name}: refused: {it}" for it in reports["refusals"] if it["uid"] in there
            ]
        return found + self.api_observer.unapplied()


class System(AnySystem[GmPod, EdgeNode]):
    """Of processes of this machine. `edges` and `clouds` name nodes; only the former have an LC.
    `folder` holds their file systems."""

    def __init__(
        self,
        plane: ApiServer,
        folder: Path,
        *,
        mode: str,
        gms: int = 2,
        edges: Sequence[str] = ("edge-a", "edge-b"),
        clouds: Sequence[str] = ("cloud-1",),
        plan_of: Callable[[Json], PodPlan] = lambda pod: PodPlan(),
        image: Path | None = None,
        lease_flags: Sequence[str] = LEASE_FLAGS,
        gm_flags: Sequence[str] = (),
        spares: int = 0,
    ) -> None:
        namespace = plane.create_namespace("system")
        pods = [
            GmPod(
                plane,
                namespace,
                name=f"gm-{number}",
                mode=mode,
                flags=gm_flags,
                lease_flags=lease_flags,
            )
            for number in range(gms)
        ]
        nodes = {
            name: EdgeNode(
                node(name, namespace),
                plane,
                pods,
                mode=mode,
                namespace=namespace,
                root=folder / name,
                flags=LC_FLAGS,
            )
            for name in edges
        }
        super().__init__(
            plane,
            folder,
            mode=mode,
            namespace=namespace,
            gms=pods,
            edges=nodes,
            clouds=clouds,
            plan_of=plan_of,
            image=image,
            spares=spares,
        )


def node(name: str, namespace: str) -> str:
    """A node's name in the cluster, which other systems share."""
    return f"{name}.{namespace}"
