"""A model of kube-apiserver for one Lease: versions, compare-and-swap, and what was written when.

Knows no network and no time of its own. Guarantees, as the real one gives them: every change has
a greater resourceVersion than all before; an update applies to exactly the uid and
resourceVersion that it carries, or is a conflict; an update without a difference changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from elector_sidecar.core.lease import Lease, parse_lease

NAMESPACE, NAME = "default", "controller"


@dataclass(frozen=True)
class Change:
    """One version of the object; `lease` is None where it was deleted."""

    at: float
    writer: str
    before: Lease | None
    lease: Lease | None
    resource_version: int


@dataclass(frozen=True)
class Answer:
    """What a request gets: a status, and the object where the status has one."""

    status: int
    lease: Lease | None = None


class ApiServer:
    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.changes: list[Change] = []
        self.on_change: list[Callable[[Change], None]] = []
        self._version = 100
        self._uids = 0

    def get(self) -> Answer:
        return Answer(200, self.lease) if self.lease else Answer(404)

    def post(self, at: float, writer: str, body: dict[str, Any]) -> Answer:
        if self.lease is not None:
            return Answer(409)
        self._uids += 1
        metadata = {**body["metadata"], "uid": f"uid-{self._uids}"}
        return self._store(at, writer, metadata, body["spec"], 201)

    def put(self, at: float, writer: str, body: dict[str, Any]) -> Answer:
        metadata = body["metadata"]
        if self.lease is None:
            # A uid is a precondition that nothing fulfils; without one, PUT creates.
            return Answer(409) if metadata.get("uid") else self.post(at, writer, body)
        if metadata.get("uid") not in (None, self.lease.uid):
            return Answer(409)
        if metadata.get("resourceVersion") not in (None, str(self.lease.resource_version)):
            return Answer(409)
        present = self.lease.raw
        if _annotations(body) == _annotations(present) and body["spec"] == present["spec"]:
            return Answer(200, self.lease)
        return self._store(at, writer, {**metadata, "uid": self.lease.uid}, body["spec"], 200)

    def edit(
        self,
        at: float,
        spec: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """As `kubectl edit`: changes the fields given, whoever holds the Lease."""
        if self.lease is None:
            return
        raw = self.lease.raw
        metadata = {**raw["metadata"], "annotations": {**_annotations(raw), **(annotations or {})}}
        self._store(at, "kubectl", metadata, {**raw["spec"], **(spec or {})}, 200)

    def create_empty(self, at: float) -> None:
        """As the manifests do: a Lease without a spec."""
        metadata = {"namespace": NAMESPACE, "name": NAME}
        self.post(at, "kubectl", {"metadata": metadata, "spec": {}})

    def delete(self, at: float) -> None:
        if self.lease is not None:
            self._changed(at, "kubectl", None, self._next_version())

    def _store(
        self, at: float, writer: str, metadata: dict[str, Any], spec: dict[str, Any], status: int
    ) -> Answer:
        version = self._next_version()
        raw = {"metadata": {**metadata, "resourceVersion": str(version)}, "spec": spec}
        lease = parse_lease(raw)
        self._changed(at, writer, lease, version)
        return Answer(status, lease)

    def _changed(self, at: float, writer: str, lease: Lease | None, version: int) -> None:
        change = Change(at, writer, self.lease, lease, version)
        self.lease = lease
        self.changes.append(change)
        for listener in list(self.on_change):
            listener(change)

    def _next_version(self) -> int:
        self._version += 1
        return self._version


def _annotations(raw: Any) -> dict[str, str]:
    return dict(raw["metadata"].get("annotations") or {})
