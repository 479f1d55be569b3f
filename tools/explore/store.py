"""The API server of an exploration: Leases, compare-and-swap, watch events, earlier states.

Knows no time and no network. Versions grow with each change. `restore` puts an earlier state back
as an etcd without a revision bump does: versions are counted on from there, below those that were
seen. None is given a second time: that a Lease has the very version again, with the same uid, on
which a request of before was built, is a coincidence that no client can see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elector_sidecar.core.lease import Lease, parse_lease
from elector_sidecar.shards.table.shard_table import TABLE_ANNOTATION

NAMESPACE = "default"
# Versions are recognised by their size in the state of a core.
FIRST_VERSION = 1_000_000
# Versions of each history between two restores.
STRIDE = 4
KEPT = ("labels", "annotations", "ownerReferences")


class Change(NamedTuple):
    """One version of one object; `lease` is the object before, where it was deleted."""

    lease: Lease
    resource_version: int
    version_before: int
    is_deleted: bool


@dataclass(frozen=True)
class Answer:
    """What a request gets: a status, and what it asked for."""

    status: int
    lease: Lease | None = None
    leases: tuple[Lease, ...] = ()
    resource_version: int = 0


class Snapshot(NamedTuple):
    """`shape`: who holds what; states of one shape differ in renewals only."""

    shape: object
    leases: Mapping[str, Lease]
    version: int


class Store:
    """Copied at each change of a state; `leases` and what it holds is never changed in place."""

    __slots__ = ("history", "leases", "log", "past", "uids", "version")

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.version = FIRST_VERSION
        # So many were made; none is made again after a restore.
        self.uids = 0
        self.history = 0
        # Changes that somebody may still ask for, by a watch from an older version.
        self.log: tuple[Change, ...] = ()
        # Of each run of remembered states of one shape the first and the last, oldest first; the
        # present state is the last.
        self.past: tuple[Snapshot, ...] = ()

    def copy(self) -> "Store":
        new = Store.__new__(Store)
        new.leases, new.version, new.uids = self.leases, self.version, self.uids
        new.log, new.past, new.history = self.log, self.past, self.history
        return new

    # ── requests ──

    def get(self, name: str) -> Answer:
        lease = self.leases.get(name)
        return Answer(200, lease) if lease else Answer(404)

    def list(self, label: tuple[str, str]) -> Answer:
        found = tuple(it for it in self.leases.values() if has_label(it, label))
        return Answer(200, leases=found, resource_version=self.version)

    def post(self, body: Mapping[str, Any]) -> Answer:
        if body["metadata"]["name"] in self.leases:
            return Answer(409)
        self.uids += 1
        return self._put({**body["metadata"], "uid": f"uid-{self.uids}"}, body["spec"], 201)

    def put(self, body: Mapping[str, Any]) -> Answer:
        metadata = body["metadata"]
        present = self.leases.get(metadata["name"])
        if present is None or metadata.get("uid") != present.uid:
            return Answer(409)
        if metadata.get("resourceVersion") != str(present.resource_version):
            return Answer(409)
        before = present.raw
        if body["spec"] == before["spec"] and all(
            (metadata.get(key) or {}) == (before["metadata"].get(key) or {}) for key in KEPT
        ):
            return Answer(200, present)
        return self._put(metadata, body["spec"], 200)

    def _put(self, metadata: Mapping[str, Any], spec: Mapping[str, Any], status: int) -> Answer:
        before = self.version
        self.version = (before // STRIDE + 1) * STRIDE + self.history
        raw = {"metadata": {**metadata, "resourceVersion": str(self.version)}, "spec": {**spec}}
        lease = parse_lease(raw)
        self.leases = {**self.leases, metadata["name"]: lease}
        self.log = (*self.log, Change(lease, self.version, before, False))
        return Answer(status, lease)

    def remember(self) -> None:
        """Of each step the state that it ends with is one that a backup may hold."""
        if self.past and self.past[-1].version == self.version:
            return
        shape = tuple((name, *_shape(lease)) for name, lease in sorted(self.leases.items()))
        now = Snapshot(shape, self.leases, self.version)
        past = self.past
        if len(past) >= 2 and past[-1].shape == past[-2].shape == shape:
            past = past[:-1]
        self.past = (*past, now)

    # ── restored, and what a watch asks for ──

    def restore(self, index: int) -> None:
        """Puts `past[index]` back; everything that came after it is forgotten."""
        then = self.past[index]
        self.leases, self.version = dict(then.leases), then.version
        self.log, self.past = (), self.past[: index + 1]
        self.history += 1

    def copies(self) -> Sequence[tuple[str, int, Lease]]:
        """Of each Lease the contents that it had and has no more, and how many states ago."""
        found = []
        for name, lease in sorted(self.leases.items()):
            known = {_shape(lease)}
            for ago, then in enumerate(reversed(self.past[:-1]), 1):
                old = then.leases.get(name)
                if old is not None and old.uid == lease.uid and _shape(old) not in known:
                    known.add(_shape(old))
                    found.append((name, ago, old))
        return found

    def put_back(self, copy: Lease) -> None:
        """As `kubectl replace` of a copy: its content, as a new version."""
        self._put(copy.raw["metadata"], copy.raw["spec"], 200)

    def since(self, version: int) -> tuple[Change, ...] | None:
        """What came after that version; None if it is too old, or not reached yet."""
        if version > self.version or (version < self.version and not self.log):
            return None
        if self.log and version < self.log[0].version_before:
            return None
        return tuple(change for change in self.log if change.resource_version > version)

    def forget(self, floor: int) -> None:
        """Nobody can ask for what came before that version any more."""
        if self.log and self.log[0].resource_version <= floor:
            self.log = tuple(it for it in self.log if it.resource_version > floor)


def has_label(lease: Lease, label: tuple[str, str]) -> bool:
    return bool((lease.raw["metadata"].get("labels") or {}).get(label[0]) == label[1])


def _shape(lease: Lease) -> tuple[object, ...]:
    annotations = lease.raw["metadata"].get("annotations") or {}
    table = annotations.get(TABLE_ANNOTATION)
    return lease.uid, lease.spec.holder_identity, lease.marked_holder, table
