"""Three GMs with shards and the API between them, one request at a time and without a clock.

The informers' caches, the plans, the applier, the guarded writes and the pruning are GM's own; the
API server is a store with resourceVersions, and ownership is what a test says. A request waits
twice for the test to let it go on: when it was checked and sent, and when it was answered. So a GM
may be frozen, lose its shard or die between any two steps, and what it had sent arrives late.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import coroutine
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from edge_sidecars.controllers.guarded_writes import NotLeading
from edge_sidecars.kubeapi import ApiError, Conflict, NotFound
from edge_sidecars.leader_client import shard_of
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import DATASET, KINDS, NODE_REPORT
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.core.stored_report import applied_of
from gm.cache.indexes import CHILD_KINDS
from gm.cache.informers import Informers
from gm.controller.api_writes import api_writes
from gm.controller.applier import Applier, ChildRefused, DecideAgain
from gm.core.engine.engine import decide, references
from gm.core.engine.plan import NODE, ObjectView
from gm.core.kind import WorkerSettings
from gm.core.kinds.registry import KINDS as SEDNA_KINDS
from gm.reports.node_report_writer import NodeReportWriter

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SHARDS = 4
NODES = ("edge-a", "edge-b", "cloud-1")
PLURALS = {it.plural: it.singular for it in (*KINDS, NODE_REPORT, *CHILD_KINDS.values())}
PLURALS["nodes"] = NODE


@coroutine
def pause() -> Generator[None, None, None]:
    """Until the test goes on."""
    yield


@dataclass(frozen=True)
class Change:
    """`document` as it is, or with the version of its deletion."""

    document: Document
    is_deletion: bool = False


class Api:
    """`created`: how often a child was made for an owner's uid; `lost`: reports that left a
    NodeReport before their object had taken them in."""

    def __init__(self) -> None:
        self._version = 0
        self.objects: dict[ObjectKey, Json] = {}
        self.history: list[Change] = []
        self.created: Counter[tuple[str, str]] = Counter()
        self.lost: list[str] = []

    async def fetch(self, method: str, path: str, *, body: Any = None, **_: Any) -> bytes:
        """As `ApiClient.fetch`."""
        await pause()
        try:
            answer = self.handle(method, path, json.loads(body) if body else {})
        finally:
            await pause()
        return json.dumps(answer).encode()

    def handle(self, method: str, path: str, body: Json) -> Json:
        """Raises `ApiError`."""
        key, part = self._key(path, body)
        present = self.objects.get(key)
        if method == "POST":
            if present is not None:
                raise Conflict(409, "AlreadyExists", str(key))
            return self.create(key.kind, body)
        if present is None:
            raise NotFound(404, "NotFound", str(key))
        if method == "GET":
            return present
        given = body.get("preconditions") or body.get("metadata", {})
        for field_ in ("uid", "resourceVersion"):
            if given.get(field_, present["metadata"][field_]) != present["metadata"][field_]:
                raise Conflict(409, "Conflict", str(key))
        if method == "DELETE":
            return self.delete(key)
        after = {**present, "status": body.get("status", {})} if part else _merged(present, body)
        if key.kind == NODE_REPORT.singular:
            self._check_pruned(present, after)
        return self.put(key, after)

    def create(self, kind: str, body: Json) -> Json:
        self._version += 1
        metadata = {"namespace": "shop", "generation": 1, **body["metadata"]}
        metadata["uid"] = f"{kind}-{metadata['name']}-{self._version}"
        key = ObjectKey(kind, metadata["namespace"], metadata["name"])
        for owner in metadata.get("ownerReferences", []):
            self.created[owner["uid"], metadata["name"]] += 1
        return self.put(key, {**body, "metadata": metadata})

    def put(self, key: ObjectKey, body: Json) -> Json:
        self._version += 1
        made: Json = json.loads(json.dumps(body))
        made["metadata"]["resourceVersion"] = str(self._version)
        self.objects[key] = made
        self.history.append(Change(_document(key, made)))
        return made

    def delete(self, key: ObjectKey) -> Json:
        self._version += 1
        gone = self.objects.pop(key)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self.history.append(Change(_document(key, gone), is_deletion=True))
        return gone

    def collect(self) -> None:
        """Garbage: children whose owners are gone."""
        alive = {it["metadata"]["uid"] for it in self.objects.values()}
        for key, it in list(self.objects.items()):
            owners = it["metadata"].get("ownerReferences", [])
            if owners and not any(owner["uid"] in alive for owner in owners):
                self.delete(key)

    def _key(self, path: str, body: Json) -> tuple[ObjectKey, str]:
        parts = path.strip("/").split("/")
        at = parts.index("namespaces") + 1
        _, plural, name, part = [*parts[at:], "", ""][:4]
        return ObjectKey(PLURALS[plural], "shop", name or body["metadata"]["name"]), part

    def _check_pruned(self, before: Json, after: Json) -> None:
        old, new = NodeReport.parse(before), NodeReport.parse(after)
        statuses = {it["metadata"]["uid"]: it.get("status", {}) for it in self.objects.values()}
        for uid, entry in old.entries.items():
            if uid not in statuses:
                continue
            applied = applied_of(statuses[uid]).get(old.node)
            kept = {it.seq for it in new.pending(uid)}
            for report in entry.reports:
                is_taken_in = applied is not None and applied.covers(report)
                if report.seq not in kept and not is_taken_in:
                    self.lost.append(f"{uid} {report.seq}")


@dataclass(eq=False)
class Work:
    """Something that is going on about one object."""

    uid: str
    going: Coroutine[Any, Any, None]


@dataclass
class Ring:
    """`owners` by shard; "" is nobody. Of a shard that is handed over the owner begins nothing."""

    owners: dict[int, str] = field(default_factory=lambda: dict.fromkeys(range(SHARDS), ""))
    handing_over: dict[int, str] = field(default_factory=dict)

    @staticmethod
    def shard(uid: str) -> int:
        # Like a real uid, unlike short texts, it fills all of the hash.
        return shard_of(str(uuid5(NAMESPACE_OID, uid)), SHARDS)

    def owns(self, name: str, uid: str) -> bool:
        shard = self.shard(uid)
        return self.owners[shard] == name and shard not in self.handing_over


class Gm:
    """Its caches are as old as the test lets them be."""

    def __init__(self, name: str, api: Api, ring: Ring) -> None:
        self.name = name
        self._api = api
        self._ring = ring
        self.restart()

    def restart(self) -> None:
        """Dies, and lists everything. What it had sent may still arrive: see `World.die`."""
        self.work: dict[str, Work] = {}
        self.informers = Informers(lambda: True)
        port: Any = self._api
        writes = api_writes(port, lambda uid: self._ring.owns(self.name, uid), timeout=1.0)
        self._applier = Applier(writes, self.informers, has_labels=True)
        self._writer = NodeReportWriter(self.informers, writes)
        position = len(self._api.history)
        self._positions = dict.fromkeys(self.informers.collections, position)
        version = self._api.history[-1].document.resource_version
        for kind, collection in self.informers.collections.items():
            found = [_document(k, it) for k, it in self._api.objects.items() if k.kind == kind]
            collection.sources[""].replaced(found, version)

    def watch(self, kind: str, count: int) -> None:
        """Hears of the next changes of one kind: each has a stream of its own."""
        source = self.informers.collections[kind].sources[""]
        history = self._api.history
        for change in history[self._positions[kind] : self._positions[kind] + count]:
            if change.document.kind != kind:
                source.at(change.document.resource_version)
            elif change.is_deletion:
                source.deleted(change.document)
            else:
                source.changed(change.document)
        self._positions[kind] = min(self._positions[kind] + count, len(history))

    def reconcile(self, key: ObjectKey) -> None:
        document = self.informers.get(key)
        if document is None or document.uid in self.work:
            return
        if self._ring.owns(self.name, document.uid):
            self.work[document.uid] = Work(document.uid, self._reconcile(document))

    def prune(self) -> None:
        for report in self.informers.reports:
            if report.uid not in self.work and self._ring.owns(self.name, report.uid):
                self.work[report.uid] = Work(report.uid, self._prune(report))

    def go_on(self, uid: str) -> None:
        """One step of what is going on about this object."""
        try:
            self.work[uid].going.send(None)
        except StopIteration:
            del self.work[uid]

    async def _reconcile(self, document: Document) -> None:
        kind, tree = SEDNA_KINDS[document.kind], document.json()
        found: dict[ObjectKey, Json | None] = {}
        while missing := references(kind, tree, found) - found.keys():
            found |= {key: self.informers.reference(key) for key in missing}
        view = ObjectView(
            object=tree,
            children=self.informers.children.of(document.uid),
            pending=self.informers.reports.pending(document.uid),
            references=found,
            concerned=self.informers.node_index.concerned(document.key),
        )
        plan = decide(kind, view, now=NOW, settings=WorkerSettings())
        try:
            await self._applier.apply(document, plan)
        except (NotLeading, DecideAgain, ChildRefused, ApiError):
            return

    async def _prune(self, report: NodeReport) -> None:
        try:
            await self._writer.prune(report)
        except (NotLeading, ApiError):
            return


def say(api: Api, dataset: str, seq: int) -> None:
    """The LC of edge-a counts samples, as in mode relay; a Dataset that is gone has none."""
    present = api.objects.get(ObjectKey(DATASET.singular, "shop", dataset))
    if present is None:
        return
    report = Report(
        store_id="s1",
        seq=seq,
        uid=present["metadata"]["uid"],
        kind=DATASET.singular,
        namespace="shop",
        name=dataset,
        is_event=False,
        worker="",
        body=json.dumps({"numberOfSamples": seq}).encode(),
    )
    key = ObjectKey(NODE_REPORT.singular, "shop", "edge-a")
    stored, _ = NodeReport.parse(api.objects[key]).stored([report])
    after = stored.to_json()
    api.put(key, {**after, "metadata": {**api.objects[key]["metadata"], **after["metadata"]}})


def _document(key: ObjectKey, body: Json) -> Document:
    return Document.parse(json.dumps(body).encode(), key.kind)


def _merged(present: Json, patch: Json) -> Json:
    """RFC 7396."""
    merged = dict(present)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _merged(merged.get(name) or {}, value)
        else:
            merged[name] = value
    return merged
