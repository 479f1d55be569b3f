"""Who sees everything that ever stood in a namespace of the API, in the API's order.

Owns one watch for each collection, from before anything was there. Guarantees: every version of
every child was seen, so that two children of one place that lived at once are found, however short
their lives were; the same of conditions, which are capped.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Self

from edge_sidecars.sedna_api.core.kinds import KINDS, NODE_REPORT, kind_named
from tools.harness.pods.wire.caller import Caller

Json = dict[str, Any]

CHILDREN = {
    "pod": "/api/v1/namespaces/{}/pods",
    "service": "/api/v1/namespaces/{}/services",
    "deployment": "/apis/apps/v1/namespaces/{}/deployments",
}
# Seconds between two watches of one collection.
PAUSE = 0.2
TIMEOUT = 30.0
_INDEX = re.compile(r"-(\d+)$")
_WORKER_TYPE = re.compile(r"[a-z]+\.sedna\.io/worker-type")
_STAGES = {"Train": 0, "Eval": 1, "Deploy": 2}


@dataclass(frozen=True, order=True)
class ChildKey:
    """Where one child may live at a time: of one owner, of one kind, of one worker."""

    owner: str
    kind: str
    worker_type: str
    index: str


@dataclass(frozen=True)
class StageCondition:
    """A condition of a learning job."""

    uid: str
    stage: str
    type: str
    round: int


class ApiObserver:
    """Sees while it is entered. `doubled`: what must not be."""

    def __init__(self, caller: Caller, namespace: str) -> None:
        self._caller = caller
        self._lock = threading.Lock()
        self._objects: dict[str, dict[str, Json]] = {}
        self._alive: dict[ChildKey, dict[str, str]] = {}
        self._latest_stage: dict[str, tuple[int, int]] = {}
        self.doubled: list[str] = []
        self.reopened: list[str] = []
        self.stages: set[StageCondition] = set()
        # Kind, name and reason of each condition of type Failed that ever was.
        self.failures: set[tuple[str, str, str]] = set()
        self.children = 0
        self._ended = threading.Event()
        self._sockets: dict[str, socket.socket] = {}
        # Where the watch of a kind goes on.
        self._versions: dict[str, str] = {}
        self._failures: list[BaseException] = []
        paths = {kind: path.format(namespace) for kind, path in CHILDREN.items()}
        for kind in (*KINDS, NODE_REPORT):
            paths[kind.singular] = kind.collection(namespace)
        self._threads = [
            threading.Thread(target=self._see, args=each, name=f"observer-{each[0]}", daemon=True)
            for each in paths.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in list(self._sockets.values()):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    # ── what there is ──

    def objects(self, kind: str) -> list[Json]:
        """Those of a kind, in lower case, that stand now as far as it was told."""
        with self._lock:
            return list(self._objects.get(kind, {}).values())

    def find(self, kind: str, name: str) -> Json | None:
        found = [it for it in self.objects(kind) if it["metadata"]["name"] == name]
        return found[0] if found else None

    def types_of(self, job: Json) -> set[str]:
        """`stage type round` of every condition that a learning job ever had."""
        uid = job["metadata"]["uid"]
        return {f"{it.stage} {it.type} {it.round}" for it in list(self.stages) if it.uid == uid}

    def concerning(self, node: str) -> dict[tuple[str, str], tuple[str, str]]:
        """uid and resourceVersion of what the node's LC is to know, by kind and name."""
        found: dict[tuple[str, str], tuple[str, str]] = {}
        models: set[str] = set()
        datasets = {it["metadata"]["name"]: it["spec"] for it in self.objects("dataset")}

        def note(kind: str, it: Json) -> None:
            metadata = it["metadata"]
            found[kind, metadata["name"]] = (metadata["uid"], metadata["resourceVersion"])

        for kind in KINDS:
            for it in self.objects(kind.singular):
                if node in _nodes(kind.singular, it["spec"], datasets):
                    note(kind.singular, it)
                    models.update(_models(kind.singular, it["spec"]))
        for it in self.objects("model"):
            if it["metadata"]["name"] in models:
                note("model", it)
        return found

    def unapplied(self) -> list[str]:
        """Reports that stand in a NodeReport and in no status, of objects that there are."""
        applied = {
            (uid, it["node"]): (it["epoch"], it["seq"])
            for kind in KINDS
            for uid, each in self._of(kind.singular).items()
            for it in each.get("status", {}).get("appliedReports", ())
        }
        there = {uid for kind in KINDS for uid in self._of(kind.singular)}
        return [
            f"{it['node']}: {entry['kind']} {entry['name']}: {report}"
            for it in self.objects("nodereport")
            for entry in it.get("entries", ())
            for report in entry.get("reports", ())
            if entry["uid"] in there
            and (report["epoch"], report["seq"]) > applied.get((entry["uid"], it["node"]), (0, 0))
        ]

    def _of(self, kind: str) -> Mapping[str, Json]:
        with self._lock:
            return dict(self._objects.get(kind, {}))

    # ── what is seen ──

    def _see(self, kind: str, path: str) -> None:
        try:
            while not self._ended.is_set():
                with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
                    self._follow(kind, path)
                self._ended.wait(PAUSE)
        except BaseException as error:  # whatever it is: a thread tells nobody else
            self._failures.append(error)
            raise

    def _follow(self, kind: str, path: str) -> None:
        """One watch, from where the last one was, whatever ended that."""
        with closing(self._caller.open(TIMEOUT)) as connection:
            connection.connect()
            # Answers without a length make http.client forget its socket.
            self._sockets[kind] = connection.sock
            version = self._versions.get(kind, "")
            target = f"{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
            connection.request("GET", target, headers=dict(self._caller.headers))
            with closing(connection.getresponse()) as response:
                self._sockets[kind].settimeout(None)
                for event in _events(response):
                    found = event["object"]
                    assert event["type"] != "ERROR", f"{kind}: history was lost: {found}"
                    self._versions[kind] = found["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(kind, event["type"], found)

    def _note(self, kind: str, type_: str, it: Json) -> None:
        uid = it["metadata"]["uid"]
        with self._lock:
            if type_ == "DELETED":
                self._objects.get(kind, {}).pop(uid, None)
            else:
                self._objects.setdefault(kind, {})[uid] = it
            if kind in CHILDREN:
                self._note_child(kind, type_, it)
            else:
                self._note_stages(it)

    def _note_child(self, kind: str, type_: str, it: Json) -> None:
        place = _child_key(kind, it)
        if place is None:
            return
        metadata = it["metadata"]
        living = self._alive.setdefault(place, {})
        is_over = it.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if type_ == "DELETED" or (kind == "pod" and is_over):
            living.pop(metadata["uid"], None)
            return
        if metadata["uid"] not in living:
            self.children += 1
        living[metadata["uid"]] = metadata["name"]
        if len(living) > 1:
            self.doubled.append(f"{place}: {sorted(living.values())}")

    def _note_stages(self, it: Json) -> None:
        uid, name = it["metadata"]["uid"], it["metadata"]["name"]
        for condition in it.get("status", {}).get("conditions", ()):
            if condition["type"] == "Failed":
                self.failures.add((it["kind"], name, condition.get("reason", "")))
            if "stage" not in condition:
                continue
            at = StageCondition(
                uid, condition["stage"], condition["type"], condition.get("round", 0)
            )
            if at in self.stages:
                continue
            self.stages.add(at)
            reached = (at.round, _STAGES[at.stage])
            if reached < self._latest_stage.get(uid, reached):
                self.reopened.append(f"{name}: {at} after {self._latest_stage[uid]}")
            self._latest_stage[uid] = max(reached, self._latest_stage.get(uid, reached))


def _events(response: http.client.HTTPResponse) -> Iterator[Json]:
    while line := response.readline():
        yield json.loads(line)


def _child_key(kind: str, it: Json) -> ChildKey | None:
    """None for what no GM made."""
    metadata = it["metadata"]
    types = [
        value for key, value in metadata.get("labels", {}).items() if _WORKER_TYPE.fullmatch(key)
    ]
    owners = [
        owner["uid"]
        for owner in metadata.get("ownerReferences", ())
        if owner.get("controller") and kind_named(owner["kind"]) is not None
    ]
    if not owners or not types:
        return None
    index = _INDEX.search(metadata["name"])
    return ChildKey(owners[0], kind, types[0], index[1] if index and kind == "pod" else "")


def _nodes(kind: str, spec: Json, datasets: dict[str, Json]) -> set[str]:
    """Of kinds that systems under test have, all of whose templates name a node."""

    def node(part: Json) -> str:
        found: str = part["template"]["spec"]["nodeName"]
        return found

    match kind:
        case "dataset":
            return {spec["nodeName"]}
        case "jointinferenceservice":
            return {node(spec["edgeWorker"])}
        case "federatedlearningjob":
            return {node(it) for it in spec["trainingWorkers"]}
        case "incrementallearningjob":
            own = {node(spec[stage]) for stage in ("trainSpec", "evalSpec", "deploySpec")}
            dataset = datasets.get(spec["dataset"]["name"])
            return own | ({dataset["nodeName"]} if dataset else set())
    return set()


def _models(kind: str, spec: Json) -> set[str]:
    """Those that LC is told of together with the job."""
    if kind != "incrementallearningjob":
        return set()
    named = {spec["initialModel"]["name"], spec["deploySpec"]["model"]["name"]}
    return named | {spec["evalSpec"].get("initialEvalModel", {}).get("name", "")}
