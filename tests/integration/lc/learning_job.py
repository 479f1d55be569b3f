"""One incremental learning job on a node that nobody reaches; GM is played between LC's lives.

`Node.goes_on` puts what GM would have written into LC's store after kill -9; so each step of a test
is also a restart while cut off.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Document
from tests.integration.lc.stocked import change, stocked, waiting
from tests.unit.lc.learning.jobs import condition, document
from tools.harness.pods.lc import PATIENCE, LcProcess
from tools.harness.processes.child import POLL_INTERVAL

Json = dict[str, Any]

SOON = {
    "checkPeriodSeconds": 1,
    "condition": {"operator": ">=", "threshold": 4, "metric": "num_of_samples"},
}
MODEL_IN = "/srv/out/train/1/model.pb"


def parsed(found: Json, *, version: int) -> Document:
    metadata = {"uid": f"uid-{found['metadata']['name']}", **found["metadata"]}
    found = {**found, "metadata": {**metadata, "resourceVersion": str(version)}}
    return Document.parse(json.dumps(found).encode(), found["kind"].lower())


def resource(kind: str, name: str, **spec: Any) -> Document:
    metadata = {"namespace": "shop", "name": name}
    return parsed({"kind": kind, "metadata": metadata, "spec": spec}, version=1)


class Node:
    """`data`: where the dataset is, `served`: the model in service; `given`: of the job, as in
    `jobs.document`."""

    def __init__(
        self,
        *,
        data: str = "/srv/d/train.txt",
        served: str = "/srv/m/prod.pb",
        flags: Sequence[str] = (),
        **given: Any,
    ) -> None:
        self._given = {"train": SOON, **given}
        self._version = 10
        self.conditions = [condition("Train", "Waiting", 1)]
        source = {"url": data, "format": data.rpartition(".")[2], "credentialName": "keys"}
        model = {"url": served, "format": "pb", "credentialName": "keys"}
        self.lc = stocked(
            resource("Dataset", "d1", nodeName="edge-a", **source),
            resource("Model", "base", url="/srv/m/base.pb", format="pb"),
            resource("Model", "prod", **model),
            self._job(),
            flags=flags,
        )

    def _job(self) -> Document:
        self._version += 1
        return parsed(document(*self.conditions, **self._given), version=self._version)

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: object) -> None:
        log = self.lc.log_text(all_lives=True)
        self.lc.stop()
        assert "Traceback" not in log, log

    def start(self) -> "Node":
        self.lc.start()
        return self

    def goes_on(self, *conditions: Json) -> None:
        """GM's next words, after a kill."""
        if self.lc.is_running:
            self.lc.kill()
        self.conditions += conditions
        change(self.lc, self._job())
        self.lc.start()

    def path(self, path: str) -> Path:
        return self.lc.root / path.lstrip("/")

    def add(self, *lines: str, path: str = "/srv/d/train.txt") -> None:
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def told(self) -> list[Json]:
        """What waits for GM of the job, in order."""
        return [json.loads(each.body) for each in waiting(self.lc) if each.name == "il1"]

    def until_told(self, is_it: Callable[[Json], object]) -> Json:
        found: Json = until(lambda: next((each for each in self.told() if is_it(each)), None))
        return found

    def said(self, phase: str, status: str, *, number: int = 1) -> Json:
        wanted = (phase, status, number)
        return self.until_told(lambda it: (it["phase"], it.get("status"), it["round"]) == wanted)

    def worker(self, kind: str, *results: Json, status: str = "completed", name: str = "") -> int:
        """What LC answers."""
        answer = self.lc.report(
            name or f"il1-{kind}-1-0",
            {
                "namespace": "shop",
                "ownerName": "il1",
                "ownerKind": "incrementallearningjob",
                "kind": kind,
                "status": status,
                "results": list(results),
            },
        )
        return 0 if answer is None else answer.status


def until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (it := found()):
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(POLL_INTERVAL * 5)
    return it


def stopped(lc: LcProcess) -> None:
    """So that what is on disk stays so."""
    if lc.is_running:
        lc.kill()
