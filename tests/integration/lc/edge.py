"""A node in mode relay: an LC and its relay before a real API server, with the link between.

Guarantees: what the cloud says here it says to the API server itself, past the relay; each part can
be killed by itself.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from edge_sidecars.sedna_api.core.kinds import DATASET, NODE_REPORT, ResourceKind
from edge_sidecars.sedna_api.core.node_report import NodeReport
from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.lc import PATIENCE, LcProcess, relay_flags
from tools.harness.processes.child import POLL_INTERVAL

Json = dict[str, Any]


class Cloud:
    """What people and GM do to objects of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._admin = plane.admin
        self.namespace = namespace

    def create(self, kind: ResourceKind, name: str, spec: Json, **metadata: Any) -> Json:
        body = {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": kind.kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        return expect(self._admin.post(kind.collection(self.namespace), body))

    def dataset(self, name: str, url: str, *, node: str, form: str = "txt") -> Json:
        return self.create(DATASET, name, {"url": url, "format": form, "nodeName": node})

    def get(self, kind: ResourceKind, name: str) -> Json:
        return expect(self._admin.get(kind.path(self.namespace, name)))

    def edit(self, kind: ResourceKind, name: str, change: Json) -> Json:
        return expect(self._admin.patch(kind.path(self.namespace, name), change))

    def set_status(self, kind: ResourceKind, name: str, status: Json) -> Json:
        path = f"{kind.path(self.namespace, name)}/status"
        return expect(self._admin.patch(path, {"status": status}))

    def delete(self, kind: ResourceKind, name: str) -> None:
        expect(self._admin.delete(kind.path(self.namespace, name)))

    def delete_namespace(self) -> None:
        """It stays for ever, terminating: nobody empties it here."""
        expect(self._admin.delete(f"/api/v1/namespaces/{self.namespace}"))

    def report(self, node: str) -> NodeReport | None:
        """What stands of a node; None where nothing does."""
        status, found = self._admin.get(NODE_REPORT.path(self.namespace, node))
        return NodeReport.parse(found) if status == 200 else None

    def bodies(self, node: str, uid: str) -> list[Json]:
        """Of the reports about one object that are not taken in."""
        report = self.report(node)
        return [] if report is None else [each.json() for each in report.pending(uid)]

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, "the cloud waits in vain"
            time.sleep(POLL_INTERVAL)


class Edge:
    """Started as a context manager; `namespace` "" for all. `flags`: further ones of LC."""

    def __init__(
        self, plane: ControlPlane, *, node: str, namespace: str, flags: Sequence[str] = ()
    ) -> None:
        self._flags = flags
        self.place = Place(Kind.RELAY, plane)
        self._node = node
        self._within = [f"--namespace={namespace}"] if namespace else []
        self.lc: LcProcess

    def __enter__(self) -> Self:
        flags = [*self._within, "--dataset-interval=1s", "--redial-cap=1s", *self._flags]
        with ExitStack() as stack:
            place = stack.enter_context(self.place)
            lc = LcProcess([*relay_flags(place.relay), *flags], node=self._node)
            self.lc = stack.enter_context(lc)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def knows(self, *names: str) -> None:
        """Returns when LC has exactly these objects."""
        self.lc.until(lambda status: {it["name"] for it in status["objects"]} == set(names))
