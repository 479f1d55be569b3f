"""One object in a cluster of its own: an API server, kubelets and LCs, as far as decisions go.

Decisions are performed as the shell performs them: actions first, the status last. Nothing happens
by itself but what a test asks for, and time stands still until it is told to pass.
"""

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.stored_report import StoredReport
from gm.core.engine.engine import decide, stands_for
from gm.core.engine.plan import (
    Action,
    ChildRefusal,
    CreateChild,
    DeleteChild,
    ObjectView,
    PatchModelStatus,
    ReconcilePlan,
    ReplaceChild,
)
from gm.core.kind import SednaKind, WorkerSettings
from gm.core.kinds.registry import KINDS
from gm.core.tree import objects, text
from gm.core.workers.manifests import spec_hash
from tests.unit.gm.controller.samples import world

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
# More decisions than any change leads to.
_MOST = 12


class Cluster:
    """`lingers`: a deleted pod stays, on its way out, until `reap`."""

    def __init__(
        self, subject: Json, *, lingers: bool = False, settings: WorkerSettings | None = None
    ) -> None:
        self.subject = subject
        self.kind: SednaKind = KINDS[text(subject, "kind").lower()]
        self.references = world()
        self.awaited: dict[ObjectKey, float] = {}
        self.children: dict[tuple[str, str], Json] = {}
        self.pending: dict[str, list[StoredReport]] = {}
        self.refusals: tuple[ChildRefusal, ...] = ()
        self.now = START
        self.lingers = lingers
        self.settings = settings or WorkerSettings()
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.patched: list[PatchModelStatus] = []
        self.events: list[str] = []
        self.refused: list[str] = []
        self._version = 1
        self._seen: list[tuple[Json, ...]] = [()]

    # ── what the shell does ──

    def view(self) -> ObjectView:
        return ObjectView(
            object=copy.deepcopy(self.subject),
            children=tuple(copy.deepcopy(list(self.children.values()))),
            pending={node: tuple(reports) for node, reports in self.pending.items()},
            references=copy.deepcopy(self.references),
            awaited=dict(self.awaited),
            refusals=self.refusals,
        )

    def decide(self) -> ReconcilePlan:
        return decide(self.kind, self.view(), now=self.now, settings=self.settings)

    def step(self) -> ReconcilePlan:
        decision = self.decide()
        self.apply(decision)
        return decision

    def remember(self) -> None:
        """What GM sees of the children now, it may still believe a moment later."""
        self._seen = [*self._seen[-1:], tuple(copy.deepcopy(list(self.children.values())))]

    def step_behind(self) -> None:
        """A decision by what was remembered before the last time: GM's copy of pods lags behind its
        copy of the object. It is performed as far as the API server lets it."""
        view = replace(self.view(), children=self._seen[0])
        decision = decide(self.kind, view, now=self.now, settings=WorkerSettings())
        if all(self._is_let(action) for action in decision.actions):
            made = [it for it in decision.actions if not self._is_there(it)]
            self.apply(replace(decision, actions=tuple(made)))

    def settle(self) -> ReconcilePlan:
        """Decide until a decision changes nothing, and give that one."""
        for _ in range(_MOST):
            decision = self.step()
            if decision.status is None and not decision.actions and not decision.annotations:
                return decision
        raise AssertionError(f"still not settled: {decision}")

    def apply(self, decision: ReconcilePlan) -> None:
        for action in decision.actions:
            match action:
                case CreateChild(manifest):
                    self._create(manifest)
                case DeleteChild(kind, _, name, uid, version):
                    self._delete(kind, name, uid, version)
                case ReplaceChild(manifest):
                    self._replace(manifest)
                case PatchModelStatus():
                    self.patched.append(action)
        self.events += [note.reason for note in decision.events]
        self.refused += [note.reason for note in decision.refused]
        annotations = self.subject["metadata"].setdefault("annotations", {})
        for key, value in decision.annotations.items():
            annotations[key] = value
            if not value:
                del annotations[key]
        if decision.status is not None:
            self.subject["status"] = copy.deepcopy(decision.status)

    # ── what happens ──

    def edit(self, **spec: Any) -> None:
        self.subject["spec"] |= spec
        self.subject["metadata"]["generation"] += 1

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def run(self, name: str, phase: str, *, node: str = "", **status: Any) -> None:
        """A kubelet reports a pod's phase."""
        pod = self.children[("Pod", name)]
        ready = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
        pod["status"] = {"phase": phase, "conditions": ready, **status}
        if phase in ("Succeeded", "Failed"):
            ended = {
                "terminated": {"finishedAt": self.stamp(), "exitCode": phase == "Failed" and 3}
            }
            pod["status"].setdefault("containerStatuses", [{"name": "w", "state": ended}])
        if node:
            pod["spec"]["nodeName"] = node

    def run_all(self, phase: str) -> None:
        for kind, name in self.children:
            if kind == "Pod":
                self.run(name, phase)

    def available(self, name: str, replicas: int, **status: Any) -> None:
        """The Deployment controller reports."""
        deployment = self.children[("Deployment", name)]
        generation = deployment["metadata"]["generation"]
        deployment["status"] = {
            "observedGeneration": generation,
            "availableReplicas": replicas,
            **status,
        }

    def reject(self, name: str, message: str) -> None:
        """The API server will not have the child as it is asked for now."""
        wanted = {
            text(it.manifest, "metadata", "name"): it.manifest
            for it in self.decide().actions
            if isinstance(it, CreateChild)
        }[name]
        rejection = ChildRefusal(text(wanted, "kind"), name, spec_hash(wanted), message)
        self.refusals = (*self.refusals, rejection)

    def vanish(self, kind: str, name: str) -> None:
        """Somebody deletes a child."""
        del self.children[(kind, name)]

    def reap(self) -> None:
        """Kubelets let go of what is on its way out."""
        leaving = [
            key for key, it in self.children.items() if text(it, "metadata", "deletionTimestamp")
        ]
        for key in leaving:
            del self.children[key]

    def report(
        self, body: Json, *, node: str = "edge-a", is_event: bool = True, store: str = "s1"
    ) -> StoredReport:
        """An LC's report arrives in its NodeReport."""
        queue = self.pending.setdefault(node, [])
        ours = [it.seq for it in queue if it.store_id == store]
        epoch = len({it.store_id for it in queue} | {store})
        stored = StoredReport(
            epoch=epoch,
            store_id=store,
            seq=max(ours, default=0) + 1,
            previous=max(ours, default=0),
            is_event=is_event,
            worker="w",
            body=json.dumps(body).encode(),
        )
        queue.append(stored)
        return stored

    # ── what people see ──

    @property
    def status(self) -> Json:
        found: Json = self.subject.get("status", {})
        return found

    @property
    def conditions(self) -> list[Json]:
        return list(objects(self.status, "conditions"))

    @property
    def state(self) -> tuple[str, ...]:
        """Type of the last condition, with its stage and round where it has them."""
        last = self.conditions[-1]
        return tuple(str(last[key]) for key in ("stage", "type", "round") if key in last)

    @property
    def last(self) -> Json:
        return self.conditions[-1]

    def names(self, kind: str = "Pod") -> list[str]:
        return sorted(name for of, name in self.children if of == kind)

    def child(self, kind: str, name: str) -> Json:
        return self.children[(kind, name)]

    def environment(self, kind: str, name: str) -> dict[str, str]:
        child = self.child(kind, name)
        spec = child["spec"] if kind == "Pod" else child["spec"]["template"]["spec"]
        return {it["name"]: it.get("value", "") for it in spec["containers"][0]["env"]}

    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def without(self, kind: str, name: str) -> None:
        """What was referred to is gone."""
        namespace = "" if kind == "node" else "shop"
        self.references[ObjectKey(kind, namespace, name)] = None

    # ── the API server ──

    def _create(self, manifest: Json) -> None:
        key = _key(manifest)
        assert key not in self.children, f"{key} twice"
        made = copy.deepcopy(manifest)
        made["metadata"] |= {"uid": f"{key[1]}-{self._next()}", "resourceVersion": "1"}
        made["metadata"]["generation"] = 1
        self.children[key] = made
        self.created.append(key[1])

    def _is_let(self, action: Action) -> bool:
        match action:
            case CreateChild(manifest):
                existing = self.children.get(_key(manifest))
                return existing is None or self._is_there(action)
            case DeleteChild(kind, _, name, uid, _):
                child = self.children.get((kind, name), {})
                return text(child, "metadata", "uid") == uid
            case ReplaceChild(manifest):
                child = self.children.get(_key(manifest), {})
                versions = [text(it, "metadata", "resourceVersion") for it in (child, manifest)]
                return versions[0] == versions[1]
            case PatchModelStatus():
                return True

    def _is_there(self, action: Action) -> bool:
        if not isinstance(action, CreateChild):
            return False
        existing = self.children.get(_key(action.manifest))
        uid = text(self.subject, "metadata", "uid")
        return existing is not None and stands_for(existing, action.manifest, uid)

    def _delete(self, kind: str, name: str, uid: str, version: str) -> None:
        child = self.children[(kind, name)]
        found = (child["metadata"]["uid"], child["metadata"]["resourceVersion"])
        assert (uid, version) == found, "a precondition that does not hold"
        self.deleted.append(name)
        if self.lingers and kind == "Pod":
            child["metadata"]["deletionTimestamp"] = self.stamp()
        else:
            del self.children[(kind, name)]

    def _replace(self, manifest: Json) -> None:
        key = _key(manifest)
        child = self.children[key]
        assert manifest["metadata"]["uid"] == child["metadata"]["uid"]
        assert manifest["metadata"]["resourceVersion"] == child["metadata"]["resourceVersion"]
        made = copy.deepcopy(manifest)
        made["metadata"]["resourceVersion"] = self._next()
        made["metadata"]["generation"] = child["metadata"]["generation"] + 1
        made["status"] = child.get("status", {})
        self.children[key] = made

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def _key(manifest: Json) -> tuple[str, str]:
    return text(manifest, "kind"), text(manifest, "metadata", "name")
