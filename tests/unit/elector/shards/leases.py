"""A model of kube-apiserver for the Leases of one namespace: versions, compare-and-swap, labels.

Knows no network. Every change has a greater resourceVersion than all before it; a watch by label
shows an object whose label was taken off as deleted, as the real one does.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from elector_sidecar.core.lease import Lease, parse_lease
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL
from tests.unit.elector.core import apiserver


@dataclass(frozen=True)
class Change:
    """One version of one object; `lease` is None where it was deleted."""

    name: str
    before: Lease | None
    lease: Lease | None
    resource_version: int


@dataclass(frozen=True)
class Answer:
    """What a request gets: a status, and what it asked for."""

    status: int
    lease: Lease | None = None
    leases: tuple[Lease, ...] = ()
    resource_version: int = 0


class LeaseServer:
    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.changes: list[Change] = []
        self.on_change: list[Callable[[Change], None]] = []
        self.requests = 0
        self._version = 100
        self._uids = 0

    def get(self, name: str) -> Answer:
        lease = self.leases.get(name)
        return Answer(200, lease) if lease else Answer(404)

    def list(self, label: str) -> Answer:
        found = tuple(lease for lease in self.leases.values() if has_label(lease, label))
        return Answer(200, leases=found, resource_version=self._version)

    def post(self, body: dict[str, Any]) -> Answer:
        if body["metadata"]["name"] in self.leases:
            return Answer(409)
        self._uids += 1
        metadata = {**body["metadata"], "uid": f"uid-{self._uids}"}
        return self._store(metadata, body["spec"], 201)

    def put(self, body: dict[str, Any]) -> Answer:
        metadata = body["metadata"]
        present = self.leases.get(metadata["name"])
        if present is None or metadata.get("uid") != present.uid:
            return Answer(409)
        if metadata.get("resourceVersion") != str(present.resource_version):
            return Answer(409)
        kept = ("labels", "annotations", "ownerReferences")
        before = present.raw
        if body["spec"] == before["spec"] and all(
            (metadata.get(key) or {}) == (before["metadata"].get(key) or {}) for key in kept
        ):
            return Answer(200, present)
        return self._store(metadata, body["spec"], 200)

    def edit(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """As `kubectl edit`: `change` gets the object."""
        present = self.leases.get(name)
        if present is not None:
            raw: dict[str, Any] = copy.deepcopy(dict(present.raw))
            raw["metadata"].setdefault("annotations", {})
            raw["metadata"].setdefault("labels", {})
            change(raw)
            self._store(raw["metadata"], raw["spec"], 200)

    def back_up(self) -> tuple[dict[str, Lease], int]:
        return dict(self.leases), self._version

    def restore(self, backup: tuple[dict[str, Lease], int], *, writes: int = 0) -> None:
        """Versions are given out again; watches have to be ended. `writes`: of other objects."""
        self.leases = dict(backup[0])
        self._version = backup[1] + writes
        self.changes = [it for it in self.changes if it.resource_version <= backup[1]]

    def delete(self, name: str) -> None:
        if name in self.leases:
            self._changed(name, None, self._next())

    def _store(self, metadata: dict[str, Any], spec: dict[str, Any], status: int) -> Answer:
        version = self._next()
        lease = parse_lease(
            {
                "metadata": copy.deepcopy({**metadata, "resourceVersion": str(version)}),
                "spec": copy.deepcopy(spec),
            }
        )
        self._changed(metadata["name"], lease, version)
        return Answer(status, lease)

    def _changed(self, name: str, lease: Lease | None, version: int) -> None:
        change = Change(name, self.leases.get(name), lease, version)
        if lease is None:
            del self.leases[name]
        else:
            self.leases[name] = lease
        self.changes.append(change)
        for listener in list(self.on_change):
            listener(change)

    def _next(self) -> int:
        self._version += 1
        return self._version


def has_label(lease: Lease | None, label: str) -> bool:
    labels = lease.raw["metadata"].get("labels") or {} if lease else {}
    return bool(labels.get(ELECTION_LABEL) == label)


class TableServer(apiserver.ApiServer):
    """The table's Lease alone, as candidates of client-go ask for it."""

    def __init__(self, server: LeaseServer, table: str) -> None:
        super().__init__()
        self._server = server
        self._table = table
        # Until one of them blanks what it does not hold (hazard H4): then others may take it.
        self.is_lawful = True

    def get(self) -> apiserver.Answer:
        return self._answer(self._server.get(self._table))

    def put(self, at: float, writer: str, body: dict[str, Any]) -> apiserver.Answer:
        before = self._server.leases.get(self._table)
        answer = self._server.put(body)
        if answer.lease is not None and not body["spec"]["holderIdentity"]:
            self.is_lawful &= before is not None and before.spec.holder_identity == writer
        return self._answer(answer)

    def post(self, at: float, writer: str, body: dict[str, Any]) -> apiserver.Answer:
        metadata = body["metadata"] | {"name": self._table}
        return self._answer(self._server.post(body | {"metadata": metadata}))

    def _answer(self, answer: Answer) -> apiserver.Answer:
        return apiserver.Answer(answer.status, answer.lease)
