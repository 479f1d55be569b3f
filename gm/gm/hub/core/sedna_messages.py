"""The messages of Sedna's own LCs: what is sent to one of them, and what it sends.

Owns the envelope, and which objects such an LC is to have at which stage. Knows no sockets.
Guarantees: Only "insert" and "delete" are sent (no LC of Sedna understands "update"). A job of
stages is inserted where its present stage needs it and deleted where its last one ran, as Sedna's
GM does. What comes up is a report without a number and without a uid, for it has neither: which
object it is about does not depend on what was sent on this connection. Source: Sedna v0.7,
pkg/globalmanager/controllers/incrementallearning/downstream.go,
pkg/globalmanager/messagelayer/model, pkg/localcontroller/gmclient/websocket.go.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    FEDERATED_LEARNING_JOB,
    INCREMENTAL_LEARNING_JOB,
    JOINT_INFERENCE_SERVICE,
    LIFELONG_LEARNING_JOB,
    MODEL,
    kind_named,
    kind_of,
)
from edge_sidecars.sedna_api.core.messages import Delete, Put, ToNode
from edge_sidecars.sedna_api.core.report import Report
from gm.core.tree import objects, part

INSERT: Final = "insert"
DELETE: Final = "delete"
# Whose word it is: one LC is one worker here.
WORKER: Final = "sedna-lc"

_STAGED: Final = frozenset({INCREMENTAL_LEARNING_JOB.singular, LIFELONG_LEARNING_JOB.singular})
# Sedna's LC has managers for these and logs an error for others.
_UNDERSTOOD: Final = _STAGED | {
    DATASET.singular,
    MODEL.singular,
    JOINT_INFERENCE_SERVICE.singular,
    FEDERATED_LEARNING_JOB.singular,
}
# "/srv/out/train/7": where LC put the round that it began.
_ROUND_DIRECTORY: Final = re.compile(r"/(?:train|eval|deploy)/([0-9]{1,9})/?$")


class NotASednaMessage(ValueError):
    """A frame that no LC of Sedna sends."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A report whose sender names its object without a uid (Sedna's own LCs); `report.uid` is "".
    It has no number either: there is no other copy of it, and it is never sent again."""

    report: Report
    completed: Callable[[Report, Document], Report]
    # Whether the connection that it came by has ended.
    is_over: Callable[[], bool] = lambda: False

    def about(self, document: Document) -> Report:
        """The report, once its object is known."""
        return replace(self.completed(self.report, document), is_late=self.is_over())


class Translator:
    """Between one stream and one LC of Sedna on `node`."""

    def __init__(self, node: str, store_id: str) -> None:
        self._node = node
        self._store_id = store_id
        # What concerns the node; and what of it LC was given.
        self._known: dict[ObjectKey, Document] = {}
        self._inserted: set[ObjectKey] = set()

    def down(self, message: ToNode) -> str | None:
        """The frame that LC is to get; None: nothing that it understands."""
        if isinstance(message, Put):
            return self._put(message.document)
        if isinstance(message, Delete):
            document = self._known.pop(
                ObjectKey(message.kind, message.namespace, message.name), None
            )
            return None if document is None else self._drop(document)
        return None

    def up(self, text: str) -> Unresolved | None:
        """None: nothing is reported (the first frame is a bare header).

        Raises `NotASednaMessage`."""
        status = _status(text)
        if status is None:
            return None
        key, content = status
        is_staged = key.kind in _STAGED
        if is_staged and str(content.get("status", "")).lower() == "running":
            # Sedna's GM takes it for an error; GM sees by itself that the pod runs.
            return None
        report = Report(
            store_id=self._store_id,
            seq=0,
            uid="",
            kind=key.kind,
            namespace=key.namespace,
            name=key.name,
            is_event=is_staged,
            worker=WORKER,
            body=msgspec.json.encode(content),
        )
        return Unresolved(report, _with_round if is_staged else _as_it_is)

    def _put(self, document: Document) -> str | None:
        if document.kind not in _UNDERSTOOD:
            return None
        self._known[document.key] = document
        if document.kind in _STAGED:
            wanted = operation(document.json(), kind=document.kind, is_here=self._is_here)
            if wanted is None:
                return None
            if wanted == DELETE:
                return self._drop(document)
        self._inserted.add(document.key)
        return _frame(document, INSERT)

    def _drop(self, document: Document) -> str | None:
        if document.key not in self._inserted:
            return None
        self._inserted.discard(document.key)
        return _frame(document, DELETE)

    def _is_here(self, place: NodeRef) -> bool:
        if place.dataset is not None:
            return place.dataset in self._known
        return place.node == self._node


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node by name, or the node of a dataset."""

    node: str = ""
    dataset: ObjectKey | None = None


def operation(job: Json, *, kind: str, is_here: Callable[[NodeRef], bool]) -> str | None:
    """What an LC receives of a job of stages in its present state; None: nothing."""
    conditions = list(objects(job, "status", "conditions"))
    if not conditions:
        return None
    stage, state = str(conditions[-1].get("stage", "")), str(conditions[-1].get("type", ""))
    namespace = str(job["metadata"].get("namespace", ""))
    name = str(part(job, "spec", "dataset", "name") or "")
    dataset = NodeRef(dataset=ObjectKey(DATASET.singular, namespace, name))
    ran = _stage_node(job, stage)
    if state == "Waiting":
        evaluates = stage == "Deploy" and kind == INCREMENTAL_LEARNING_JOB.singular
        place = _stage_node(job, "Eval") if evaluates else dataset
        return INSERT if is_here(place) else None
    if state == "Running":
        return INSERT if is_here(ran) else None
    if state in ("Completed", "Failed"):
        stays = is_here(dataset) or is_here(_stage_node(job, "Deploy"))
        return DELETE if is_here(ran) and not stays else None
    return None


def _stage_node(job: Json, stage: str) -> NodeRef:
    """Where the stage's pod last was (GM annotates it), else where its template wants it."""
    annotated = part(job, "metadata", "annotations", f"sedna.io/{stage}")
    template = part(job, "spec", f"{stage.lower()}Spec", "template", "spec", "nodeName")
    return NodeRef(node=str(annotated or template or ""))


def _status(text: str) -> tuple[ObjectKey, Json] | None:
    """About which object an LC reports, and what."""
    try:
        message = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NotASednaMessage(f"no JSON: {error}") from error
    header = message.get("header") if isinstance(message, dict) else None
    if not isinstance(header, dict) or header.get("operation") != "status":
        return None
    kind = kind_named(str(header.get("resourceKind", "")))
    if kind is None or kind.singular not in _UNDERSTOOD:
        raise NotASednaMessage(f"no kind that an LC reports: {header.get('resourceKind')!r:.80}")
    try:
        content = msgspec.json.decode(base64.b64decode(message.get("content") or b""))
    except (ValueError, TypeError, RecursionError) as error:
        raise NotASednaMessage(f"the content is no JSON in base64: {error}") from error
    if not isinstance(content, dict):
        raise NotASednaMessage("the content is no JSON object")
    namespace, name = str(header.get("namespace", "")), str(header.get("resourceName", ""))
    return ObjectKey(kind.singular, namespace, name), content


def _as_it_is(report: Report, document: Document) -> Report:
    return replace(report, uid=document.uid)


def _with_round(report: Report, document: Document) -> Report:
    content: Json = msgspec.json.decode(report.body)
    round_ = _round(content, document)
    content = content if round_ is None else {**content, "round": round_}
    return replace(report, uid=document.uid, body=msgspec.json.encode(content))


def _round(content: Json, document: Document) -> int | None:
    """Sedna's LC does not say which round it means: the one that it began where it says so, else
    the stage's newest that it received."""
    directory = part(content, "input", "outputDir")
    found = _ROUND_DIRECTORY.search(directory) if isinstance(directory, str) else None
    phase = str(content.get("phase", "")).lower()
    for condition in reversed(list(objects(document.json(), "status", "conditions"))):
        counted = condition.get("round")
        if str(condition.get("stage", "")).lower() == phase and isinstance(counted, int):
            return counted
    return int(found[1]) if found else None


def _frame(document: Document, operation: str) -> str:
    content = document.json()
    content.pop("apiVersion", None)
    content["kind"] = kind_of(document.kind).kind
    header = {
        "namespace": document.namespace,
        "resourceKind": document.kind,
        "resourceName": document.name,
        "operation": operation,
    }
    data = base64.b64encode(msgspec.json.encode(content)).decode()
    return msgspec.json.encode({"header": header, "content": data}).decode()
