"""The two jobs as an outsider reads them from the API: how far they are, and what was taken in.

Owns no object: everything is the observer's newest. Pure reading, no I/O.
"""

import json
from dataclasses import dataclass
from typing import Any

from tools.demo.sedna.workload import FEDERATED, INCREMENTAL
from tools.harness.pods.observers.api_observer import ApiObserver

Json = dict[str, Any]

# (epoch, seq): both only grow.
Mark = tuple[int, int]
NOTHING: Mark = (0, 0)


@dataclass(frozen=True)
class Progress:
    """`stage` in the API's words; `precision` of the newest model, and of the one before it."""

    stage: str
    round: int
    precision: float | None
    was: float | None
    workers: int


class Jobs:
    def __init__(self, api_observer: ApiObserver) -> None:
        self._api_observer = api_observer

    def federated(self) -> Progress:
        job = self._find(FEDERATED) or {}
        conditions = _conditions(job)
        model = self._api_observer.find("model", FEDERATED[1]) or {}
        metrics = {it["key"]: it["value"] for it in model.get("status", {}).get("metrics", ())}
        return Progress(
            stage=conditions[-1]["type"] if conditions else "",
            round=max((it.get("round", 0) for it in conditions), default=0),
            precision=float(metrics["precision"]) if "precision" in metrics else None,
            was=None,
            workers=self._workers(job),
        )

    def incremental(self) -> Progress:
        job = self._find(INCREMENTAL) or {}
        conditions = _conditions(job)
        last = conditions[-1] if conditions else {}
        new, old = _evaluated(conditions)
        return Progress(
            # What is wrong with the job as a whole is of no stage.
            stage=" ".join(last[it] for it in ("stage", "type") if last.get(it)),
            round=last.get("round", 0),
            precision=new,
            was=old,
            workers=self._workers(job),
        )

    def is_training(self) -> bool:
        """Whether the federated workers are at work."""
        return self.federated().stage == "Training"

    def stages(self) -> set[str]:
        """`stage type round` of every condition that the incremental job ever had."""
        job = self._find(INCREMENTAL)
        return self._api_observer.types_of(job) if job else set()

    def inference_workers(self) -> list[str]:
        """uids of the incremental job's."""
        name = f"{INCREMENTAL[1]}-inference"
        return [
            it["metadata"]["uid"]
            for it in self._api_observer.objects("pod")
            if it["metadata"]["name"].startswith(name)
        ]

    def samples(self, dataset: str) -> int | None:
        """How many its status counts."""
        found = self._api_observer.find("dataset", dataset) or {}
        count: int | None = found.get("status", {}).get("numberOfSamples")
        return count

    # ── reports ──

    def applied(self, node: str) -> Mark:
        """The last report of a node that the federated job's status has taken in."""
        applied = (self._find(FEDERATED) or {}).get("status", {}).get("appliedReports", ())
        return max(
            ((it["epoch"], it["seq"]) for it in applied if it["node"] == node), default=NOTHING
        )

    def stored(self, node: str) -> Mark:
        """The last one that stands, or stood, in the node's NodeReport."""
        report = self._api_observer.find("nodereport", node) or {}
        job = self._find(FEDERATED)
        return max(
            (
                (report["epoch"], it["seq"])
                for it in report.get("entries", ())
                if job is not None and it["uid"] == job["metadata"]["uid"]
            ),
            default=NOTHING,
        )

    def reports(self) -> int:
        """How many were numbered and came through, or were replaced by newer ones on their way."""
        found = self._api_observer.objects("nodereport")
        return sum(it["seq"] for report in found for it in report.get("entries", ()))

    # ── ──

    def _find(self, which: tuple[str, str]) -> Json | None:
        kind, name = which
        return self._api_observer.find(kind.lower(), name)

    def _workers(self, job: Json) -> int:
        uid = job.get("metadata", {}).get("uid")
        return sum(
            it.get("status", {}).get("phase") == "Running"
            and any(owner["uid"] == uid for owner in it["metadata"].get("ownerReferences", ()))
            for it in self._api_observer.objects("pod")
        )


def _conditions(job: Json) -> list[Json]:
    return list(job.get("status", {}).get("conditions", ()))


def _evaluated(conditions: list[Json]) -> tuple[float | None, float | None]:
    """Precision of the new and of the deployed model, as the last evaluation found."""
    done = [it for it in conditions if (it.get("stage"), it["type"]) == ("Eval", "Completed")]
    if not done:
        return None, None
    models = json.loads(done[-1].get("data", "{}")).get("output", {}).get("models", ())
    found = [it["metrics"]["precision"][0] for it in models if it.get("metrics")]
    new, old, *_ = (*found, None, None)
    return new, old
