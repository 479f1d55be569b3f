"""Workers of all kinds as threads of the kubelets' stand-in, and what LC has taken from them.

Owns what was said and answered with 200: no such word may be lost. Guarantees: a worker repeats
itself, as Sedna's library does, until LC takes it or the pod ends; anything but "not now" and "not
known here" is a complaint.
"""

import http.client
import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.harness.controlplane.clients.answer import exchange
from tools.harness.pods.kubelet.pod_plan import PodPlan

Json = dict[str, Any]

# Seconds between two attempts, and until an LC that is silent is asked again.
RETRY = 0.3
ANSWER_TIMEOUT = 3.0
# Seconds between two words of one worker.
PACE = 0.4
# Of one that serves and counts; Sedna's reports each 30 s (LC_PERIOD).
COUNT_PACE = 3.0
ROUNDS = 5
_SUFFIX = ".sedna.io/worker-type"
# Not known here yet, or not any more; not taken, to be repeated.
_LATER = (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True)
class Told:
    """The last word of a worker that LC took."""

    worker: str
    value: str


class Workers:
    """`plan_of` is for the kubelets; `quiet` ends what never ends by itself."""

    def __init__(self) -> None:
        self.quiet = threading.Event()
        self.complaints: list[str] = []
        self.taken = 0
        self._lock = threading.Lock()
        # By job: of each worker the last word.
        self._last: dict[str, dict[str, str]] = defaultdict(dict)
        # Of learning jobs: `stage round` of each result.
        self._stages: dict[str, set[str]] = defaultdict(set)
        self._counts: dict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
        self._works: dict[tuple[str, str], Callable[[Mapping[str, str], threading.Event], int]] = {
            ("federatedlearningjob", "train"): self._train,
            ("incrementallearningjob", "train"): self._learn,
            ("incrementallearningjob", "eval"): self._evaluate,
            ("incrementallearningjob", "inference"): self._infer,
            ("jointinferenceservice", "edge"): self._count,
        }

    def plan_of(self, pod: Json) -> PodPlan:
        labels = pod["metadata"].get("labels", {})
        types = [(key.partition(".")[0], labels[key]) for key in labels if key.endswith(_SUFFIX)]
        if types == [("federatedlearningjob", "aggregation")]:
            return PodPlan(runs_for=2 * PACE)
        return PodPlan(work=self._works.get(types[0])) if types else PodPlan()

    def last_of(self, job: str) -> set[Told]:
        with self._lock:
            return {Told(worker, value) for worker, value in self._last[job].items()}

    def stages_of(self, job: str) -> set[str]:
        """`stage Completed round` of each result that LC took."""
        with self._lock:
            return set(self._stages[job])

    # ── kinds ──

    def _train(self, environ: Mapping[str, str], ended: threading.Event) -> int:
        worker = environ["WORKER_NAME"]
        for number in range(1, ROUNDS + 1):
            value = f"{worker} {number} {next(self._counts[worker])}"
            is_last = number == ROUNDS
            told = {
                "ownerName": environ["JOB_NAME"],
                "ownerKind": "federatedlearningjob",
                "kind": "train",
                "status": "completed" if is_last else "running",
                "ownerInfo": {"currentRound": number, "sampleCount": 10},
                "results": [{"format": "json", "url": "/m", "metrics": {"value": value}}],
            }
            if not self._say(environ, ended, told):
                return 1
            with self._lock:
                self._last[environ["JOB_NAME"]][worker] = value
            if not is_last:
                ended.wait(PACE)
        return 0

    def _learn(self, environ: Mapping[str, str], ended: threading.Event) -> int:
        model = Path(environ["MODEL_URL"]) / "model.json"
        model.parent.mkdir(parents=True, exist_ok=True)
        model.write_text(environ["WORKER_NAME"])
        return self._result(environ, ended, "train", [(str(model), 0.5)])

    def _evaluate(self, environ: Mapping[str, str], ended: threading.Event) -> int:
        """Each new model is better than the one before."""
        urls = environ["MODEL_URLS"].split(";")
        scores = [0.9, 0.5][: len(urls)]
        return self._result(environ, ended, "eval", list(zip(urls, scores, strict=False)))

    def _result(
        self,
        environ: Mapping[str, str],
        ended: threading.Event,
        kind: str,
        models: list[tuple[str, float]],
    ) -> int:
        prefix = environ.get("DATA_PATH_PREFIX", "")
        ended.wait(PACE)
        told = {
            "ownerName": environ["JOB_NAME"],
            "ownerKind": "incrementallearningjob",
            "kind": kind,
            "status": "completed",
            "results": [
                {"format": "json", "url": url.removeprefix(prefix), "metrics": {"precision": [it]}}
                for url, it in models
            ],
        }
        if not self._say(environ, ended, told):
            return 1
        # `<job>-<type>-<round>-<index>`
        round_ = environ["WORKER_NAME"].split("-")[-2]
        with self._lock:
            self._stages[environ["JOB_NAME"]].add(f"{kind.capitalize()} Completed {round_}")
        return 0

    def _infer(self, environ: Mapping[str, str], ended: threading.Event) -> int:
        """Takes each model that is put there for a hot update."""
        known = ""
        while not ended.wait(RETRY):
            config = Path(environ.get("MODEL_HOT_UPDATE_CONFIG", ""))
            if not config.is_file():
                continue
            said = json.loads(config.read_text())["model_config"]["model_update_time"]
            told = {
                "ownerName": environ["JOB_NAME"],
                "ownerKind": "incrementallearningjob",
                "kind": "deploy",
                "status": "completed",
                "results": [],
            }
            if said != known and self._say(environ, ended, told):
                known = said
        return 0

    def _count(self, environ: Mapping[str, str], ended: threading.Event) -> int:
        service = environ["SERVICE_NAME"]
        while not ended.wait(COUNT_PACE):
            if self.quiet.is_set():
                continue
            # One worker at a time, else the last word would be anybody's.
            with self._lock:
                number = next(self._counts[service])
            told = {
                "ownerName": service,
                "ownerKind": "jointinferenceservice",
                "kind": "inference",
                "ownerInfo": {"inferenceNumber": number},
                "results": [],
            }
            if self._say(environ, ended, told):
                with self._lock:
                    self._last[service][environ["WORKER_NAME"]] = str(number)
        return 0

    # ── what is said ──

    def _say(self, environ: Mapping[str, str], ended: threading.Event, told: Json) -> bool:
        """Until LC has taken it; False where the pod ended before."""
        body = {
            "name": environ["WORKER_NAME"],
            "namespace": environ["NAMESPACE"],
            "ownerInfo": {},
            **told,
        }
        while not ended.is_set():
            status, said = _post(environ["LC_SERVER"], body)
            if status == HTTPStatus.OK:
                with self._lock:
                    self.taken += 1
                return True
            if status and status not in _LATER:
                self.complaints.append(f"LC answered {status} {said} to {body}")
                return False
            ended.wait(RETRY)
        return False


def _post(server: str, body: Json) -> tuple[int, str]:
    """0 without an answer."""
    place = urlsplit(server)
    connection = http.client.HTTPConnection(place.netloc, timeout=ANSWER_TIMEOUT)
    # Workers speak to loopback, also where a door leads to it from here.
    headers = {"Content-Type": "application/json", "Host": f"127.0.0.1:{place.port}"}
    path = f"{place.path}/sedna/workers/{body['name']}/info"
    content = json.dumps(body).encode()
    try:
        answer = exchange(connection, path, method="POST", body=content, headers=headers)
    except OSError:
        return 0, ""
    return answer.status, answer.body.decode(errors="replace")
