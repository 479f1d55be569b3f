"""Objects of people who go on with their work, and what must become of each.

Owns which objects there are to be and what they are to say in the end. Guarantees: the seed alone
decides what is drawn; names are never used again, but by what is deleted and made anew on purpose.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from tools.harness.pods.components import EdgeComponent, GmComponent
from tools.harness.pods.system import AnySystem
from tools.harness.system.workers import ROUNDS, Workers

Json = dict[str, Any]

API_VERSION = "sedna.io/v1alpha1"
# New samples with which a learning job begins a round; and how many come at a time.
THRESHOLD = 10
BATCH = 2 * THRESHOLD
_DATASET, _FEDERATED = "Dataset", "FederatedLearningJob"
_INFERENCE, _LEARNING = "JointInferenceService", "IncrementalLearningJob"


class Workload:
    """`deed` does one thing; `wrongs` says what is not as it must be."""

    def __init__(
        self, system: AnySystem[GmComponent, EdgeComponent], workers: Workers, *, seed: int
    ) -> None:
        self._system = system
        self._workers = workers
        self._random = random.Random(seed)
        self._edges = sorted(system.edges)
        self._numbers: Iterator[int] = itertools.count(1)
        # By name: how many lines its file has, and on which node.
        self._datasets: dict[str, tuple[int, str]] = {}
        self._federated: set[str] = set()
        self._services: set[str] = set()
        self._learning: dict[str, str] = {}
        self._deeds: list[tuple[int, Callable[[], str]]] = [
            (8, self._append),
            (3, self._new_dataset),
            (2, self.new_dataset_again),
            (1, self._move_dataset),
            (1, self._remove_dataset),
            (3, self._new_federated),
            (1, self._again_federated),
            (1, self._remove_federated),
            (1, self._new_service),
            (1, self._remove_service),
            (1, self._new_learning),
            (3, self._more_to_learn),
        ]

    @property
    def objects(self) -> int:
        return (
            len(self._datasets)
            + 2 * len(self._federated)
            + 3 * len(self._services)
            + 4 * len(self._learning)
        )

    def begin(self, objects: int) -> None:
        """So many at least, of all kinds."""
        makers = (
            *[self._new_dataset] * 8,
            *[self._new_federated] * 4,
            self._new_service,
            self._new_learning,
        )
        for make in itertools.cycle(makers):
            if self.objects >= objects:
                return
            make()

    def deed(self) -> str:
        """One thing that people do; what it was."""
        weights, deeds = zip(*self._deeds, strict=True)
        chosen: Callable[[], str] = self._random.choices(deeds, weights)[0]
        return chosen()

    # ── datasets ──

    def _new_dataset(self) -> str:
        name, edge = f"d-{next(self._numbers)}", self._random.choice(self._edges)
        self._make_dataset(name, edge, self._random.randrange(20))
        return f"new {name}"

    def _make_dataset(self, name: str, edge: str, lines: int) -> None:
        self._write(name, edge, lines)
        spec = {"url": f"/var/lib/sedna/data/{name}.txt", "format": "txt", "nodeName": edge}
        self._create(_DATASET, name, spec)

    def _write(self, name: str, edge: str, lines: int, *, mode: str = "w") -> None:
        path = self._system.edges[edge].lc.root / "var/lib/sedna/data" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.writelines(f"{number},{number},1\n" for number in range(lines))
        had = self._datasets.get(name, (0, edge))[0] if mode == "a" else 0
        self._datasets[name] = (had + lines, edge)

    def _append(self) -> str:
        return self._grow(self._any(self._datasets), self._random.randrange(1, 9))

    def append_on(self, edge: str) -> str:
        """To a dataset of that node."""
        return self._grow(
            self._any(it for it in self._datasets if self._datasets[it][1] == edge), 5
        )

    def _grow(self, name: str, lines: int) -> str:
        if not name:
            return ""
        self._write(name, self._datasets[name][1], lines, mode="a")
        return f"{lines} samples into {name}"

    def new_dataset_again(self) -> str:
        """Of the same name, with another uid."""
        name = self._any(self._idle_datasets())
        if not name:
            return ""
        self._system.delete(_DATASET, name)
        edge = self._random.choice(self._edges)
        self._make_dataset(name, edge, self._random.randrange(20))
        return f"{name} anew"

    def _move_dataset(self) -> str:
        name = self._any(self._idle_datasets())
        if not name:
            return ""
        edge = self._random.choice(self._edges)
        self._write(name, edge, self._random.randrange(20))
        self._system.patch(_DATASET, name, {"spec": {"nodeName": self._system.node(edge)}})
        return f"{name} to {edge}"

    def _remove_dataset(self) -> str:
        name = self._any(self._idle_datasets())
        if name:
            self._system.delete(_DATASET, name)
            del self._datasets[name]
        return f"no {name}" if name else ""

    def _idle_datasets(self) -> list[str]:
        """Those that no job learns from."""
        return [name for name in self._datasets if name.startswith("d-")]

    # ── jobs ──

    def _new_federated(self) -> str:
        number = next(self._numbers)
        name = f"f-{number}"
        edges = self._random.sample(self._edges, self._random.choice((1, 2)))
        self._create(
            "Model", f"m-{name}", {"url": f"/var/lib/sedna/models/{name}.json", "format": "json"}
        )
        datasets = []
        for edge in edges:
            dataset = f"of-{name}-{edge}"
            self._make_dataset(dataset, edge, 3)
            datasets.append(dataset)
        spec: Json = {
            "aggregationWorker": {"model": {"name": f"m-{name}"}, "template": _template("cloud-1")},
            "trainingWorkers": [
                {"dataset": {"name": dataset}, "template": _template(edge)}
                for dataset, edge in zip(datasets, edges, strict=True)
            ],
            "transmitter": {"ws": {}},
        }
        self._create(_FEDERATED, name, spec)
        self._federated.add(name)
        return f"new {name}"

    def _again_federated(self) -> str:
        """An edit of its spec: it begins anew, finished or not."""
        name = self._any(self._federated)
        if not name:
            return ""
        image = f"image-{next(self._numbers)}"
        template = _template("cloud-1", image=image)
        template["spec"]["nodeName"] = self._system.node("cloud-1")
        patch = {"spec": {"aggregationWorker": {"template": template}}}
        self._system.patch(_FEDERATED, name, patch)
        return f"{name} edited"

    def _remove_federated(self) -> str:
        name = self._any(self._federated)
        if name:
            self._system.delete(_FEDERATED, name)
            self._federated.remove(name)
        return f"no {name}" if name else ""

    def _new_service(self) -> str:
        return f"new {self.new_service_on(self._random.choice(self._edges))}"

    def new_service_on(self, edge: str) -> str:
        """Whose worker on that node speaks for as long as it is there; its name."""
        name = f"j-{next(self._numbers)}"
        for model in ("small", "big"):
            spec = {"url": f"/var/lib/sedna/models/{model}.json", "format": "json"}
            self._create("Model", f"{model}-{name}", spec)
        service: Json = {
            "edgeWorker": {
                "model": {"name": f"small-{name}"},
                "hardExampleMining": {"name": "IBT"},
                "template": _template(edge),
            },
            "cloudWorker": {"model": {"name": f"big-{name}"}, "template": _template("cloud-1")},
        }
        self._create(_INFERENCE, name, service)
        self._services.add(name)
        return name

    def _remove_service(self) -> str:
        name = self._any(self._services)
        if name:
            self._system.delete(_INFERENCE, name)
            self._services.remove(name)
        return f"no {name}" if name else ""

    def _new_learning(self) -> str:
        name, edge = f"i-{next(self._numbers)}", self._random.choice(self._edges)
        dataset = f"of-{name}"
        for model in ("base", "deployed"):
            url = f"/var/lib/sedna/learning/{name}/{model}/model.json"
            self._create("Model", f"{model}-{name}", {"url": url, "format": "json"})
        root = self._system.edges[edge].lc.root
        for model in ("base", "deployed"):
            path = root / f"var/lib/sedna/learning/{name}/{model}/model.json"
            path.parent.mkdir(parents=True)
            path.write_text("{}")
        self._make_dataset(dataset, edge, BATCH)
        is_hot = self._random.random() < 0.5
        template = _template(edge)
        spec = {
            "dataset": {"name": dataset, "trainProb": 0.8},
            "initialModel": {"name": f"base-{name}"},
            "outputDir": f"/var/lib/sedna/learning/{name}/out",
            "trainSpec": {
                "template": template,
                "trigger": {
                    "checkPeriodSeconds": 1,
                    "condition": _condition(">=", THRESHOLD, "num_of_samples"),
                },
            },
            "evalSpec": {"template": template},
            "deploySpec": {
                "model": {
                    "name": f"deployed-{name}",
                    "hotUpdateEnabled": is_hot,
                    "pollPeriodSeconds": 1,
                },
                "trigger": {"condition": _condition(">", 0.1, "precision_delta[0]")},
                "hardExampleMining": {"name": "IBT"},
                "template": template,
            },
        }
        self._create(_LEARNING, name, spec)
        self._learning[name] = dataset
        return f"new {name}{' (hot)' if is_hot else ''}"

    def _more_to_learn(self) -> str:
        name = self._any(self._learning)
        return self._grow(self._learning[name], BATCH) if name else ""

    # ── what must be ──

    def wrongs(self) -> list[str]:
        """What is not as it must be when all is quiet."""
        api_observer = self._system.api_observer
        found = []
        for kind, judge, names in (
            ("dataset", self._judge_dataset, self._datasets),
            ("federatedlearningjob", self._judge_federated, self._federated),
            ("jointinferenceservice", self._judge_service, self._services),
            ("incrementallearningjob", self._judge_learning, self._learning),
        ):
            there = {it["metadata"]["name"]: it for it in api_observer.objects(kind)}
            if there.keys() != set(names):
                found.append(f"{kind}: {sorted(there.keys() ^ set(names))} should (not) be")
                continue
            found += [
                f"{kind} {name}: {why}" for name, it in there.items() if (why := judge(name, it))
            ]
        return found

    def _judge_dataset(self, name: str, it: Json) -> str:
        has = it.get("status", {}).get("numberOfSamples")
        wanted = self._datasets[name][0]
        return "" if has == wanted else f"{has} samples instead of {wanted}"

    def _judge_federated(self, name: str, it: Json) -> str:
        status = it.get("status", {})
        if _state(it) != "Complete" or status.get("phase") != "Succeeded":
            return f"{_state(it)}, {status.get('phase')}, {self._pods(it)}"
        if status.get("observedGeneration") != it["metadata"]["generation"]:
            return f"generation {it['metadata']['generation']} was not made: {status}"
        model = self._system.api_observer.find("model", f"m-{name}")
        metrics = (model or {}).get("status", {}).get("metrics", [])
        values = {each["value"] for each in metrics}
        wanted = {each.value for each in self._workers.last_of(name)}
        if not values or not values <= wanted or any(str(ROUNDS) != v.split()[1] for v in values):
            return f"its Model says {values}, its workers said {wanted} last"
        return ""

    def _judge_service(self, name: str, it: Json) -> str:
        if _state(it) != "Running":
            return _state(it)
        told = {each.value for each in self._workers.last_of(name)}
        metrics = it["status"].get("metrics", [])
        says = {each["value"] for each in metrics if each["key"] == "inferenceNumber"}
        return "" if says == told else f"its metrics say {says}, its worker said {told} last"

    def _judge_learning(self, name: str, it: Json) -> str:
        if not _state(it).startswith("Train Waiting"):
            return _state(it)
        missing = self._workers.stages_of(name) - self._system.api_observer.types_of(it)
        if missing:
            return f"taken by LC, but never in the conditions: {sorted(missing)}"
        failed = {each for each in self._system.api_observer.types_of(it) if " Failed " in each}
        return f"failed without a reason: {failed}" if failed else ""

    # ── inside ──

    def _pods(self, owner: Json) -> dict[str, str]:
        """Of an object: where each stands."""
        return {
            it["metadata"]["name"]: f"{it['status'].get('phase')} on {it['spec'].get('nodeName')}"
            for it in self._system.api_observer.objects("pod")
            for each in it["metadata"].get("ownerReferences", ())
            if each["uid"] == owner["metadata"]["uid"]
        }

    def _create(self, kind: str, name: str, spec: Json) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        self._system.apply(body)

    def _any(self, names: Any) -> str:
        ordered = sorted(names)
        return self._random.choice(ordered) if ordered else ""


def _state(it: Json) -> str:
    conditions = it.get("status", {}).get("conditions", [])
    if not conditions:
        return "no condition"
    last = conditions[-1]
    return " ".join(str(last[key]) for key in ("stage", "type", "round") if key in last)


def _condition(operator: str, threshold: float, metric: str) -> Json:
    return {"operator": operator, "threshold": threshold, "metric": metric}


def _template(node: str, *, image: str = "image") -> Json:
    return {"spec": {"nodeName": node, "containers": [{"name": "worker", "image": image}]}}
