"""Each child beside the one that Sedna's GM makes of the same object: what differs is meant to.

`sedna_children/` has what Sedna makes of our samples, and of objects in the shape of its own
examples, as it follows from reading kubeedge/sedna, pkg/globalmanager: runtime/worker.go and
controllers/{incrementallearning,reid,featureextraction} at 02d2304, runtime/
storage_initializer_injector.go at 2a484a9, controllers/federatedlearning at 712b62b,
jointinference at 0dbf744, lifelonglearning at b91cfb9, videoanalytics at 37a39fd, objectsearch at
bfa3a65. There, `*` stands for random letters, `<plain text of …>` for the content of a Secret, and
what is mounted for volumes. docs/how-to/move-from-sedna.md has the table of all differences.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_sidecars.sedna_api.core.api_object import ObjectKey
from gm.core.references import references
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import NAMESPACE, dataset, model, secret
from tests.unit.repository.checkout import ROOT, rows

Json = dict[str, Any]

FOLDER = Path(__file__).parent / "sedna_children"
CASES = sorted(FOLDER.glob("*.yaml"))
STORE = {"s3-endpoint": "store.example"}
UID = "<uid>"


@dataclass(frozen=True)
class Difference:
    """At a path into a child, which begins with its kind and worker; None where nothing is."""

    path: tuple[str, ...]
    sedna: Any
    ours: Any

    @property
    def field(self) -> str:
        return self.path[-1]

    @property
    def place(self) -> str:
        return self.path[-2]


def _is_env(it: Difference, *names: str) -> bool:
    return it.place == "env" and it.field in names


def _is_key(it: Difference, *, of_same: bool) -> bool:
    """The same key by reference, of the same Secret or another."""
    if not _is_env(it, "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        return False
    reference = it.ours["secretKeyRef"]
    is_same = it.sedna == f"<plain text of {reference['name']}>"
    return reference["key"] == it.field and is_same is of_same


# By the first cells of the table in docs/how-to/move-from-sedna.md.
DIFFERENCES: Mapping[str, Callable[[Difference], bool]] = {
    "names of pods": lambda it: (
        (it.path[0], it.field) == ("Pod", "name")
        and bool(it.sedna and it.ours)
        and re.fullmatch(rf"{re.escape(it.sedna[:-1])}(\d+-)?\d+", it.ours) is not None
    ),
    "`WORKER_NAME`": lambda it: _is_env(it, "WORKER_NAME") and it.ours is not None,
    "labels and annotations of ours": lambda it: (
        it.sedna is None
        and it.field
        in (
            "app.kubernetes.io/managed-by",
            "sedna.io/round",
            "sedna.io/spec-hash",
            "sedna.io/generation",
        )
    ),
    "keys of a Secret": lambda it: _is_key(it, of_same=True),
    "a worker that needs two Secrets": lambda it: _is_key(it, of_same=False),
    "a directory with two sources": lambda it: (
        it.place == "mounts" and (it.sedna, it.ours) == (2, 1)
    ),
    "a variable that the template has as well": lambda it: it.field == "given twice",
    "`dnsPolicy` of a lifelong job's templates": lambda it: (
        it.field == "dnsPolicy" and it.path[:2] == ("Pod", "train") and it.ours == "Default"
    ),
    "`OUTPUT_URL` of a lifelong job's inference": lambda it: (
        it.path[:2] == ("Pod", "inference")
        and it.sedna is None
        and (_is_env(it, "OUTPUT_URL") or it.place == "mounts")
    ),
    "`restartPolicy` of ReidJob and VideoAnalyticsJob": lambda it: (
        it.field == "restartPolicy" and (it.sedna, it.ours) == (None, "Always")
    ),
    "environment of `reidWorkers`": lambda it: (
        it.path[:2] == ("Deployment", "reidworker")
        and it.sedna is None
        and _is_env(it, "NAMESPACE", "SERVICE_NAME", "WORKER_NAME")
    ),
    "`HEM_PARAMETERS` without parameters": lambda it: (
        _is_env(it, "HEM_PARAMETERS") and (it.sedna, it.ours) == ("null", "[]")
    ),
    "`replicas` of a JointInferenceService": lambda it: (
        it.field == "replicas" and (it.sedna, it.ours) == (None, 1)
    ),
    "other fields of a Deployment": lambda it: it.place == "strategy" and it.sedna is None,
    "ObjectTrackingService": lambda it: it.path[2:] == ("is made",) and it.sedna is None,
}


@pytest.mark.parametrize("case", CASES, ids=lambda it: it.stem)
def test_a_child_differs_from_sednas_only_where_the_manual_says_so(case: Path) -> None:
    unexplained = [it for it in _differences(case) if _why(it) is None]
    assert not unexplained, "\n".join(map(str, unexplained))


def test_the_table_of_differences_is_that_of_the_manual_and_each_is_met() -> None:
    told = [cells[0] for cells in rows("docs/how-to/move-from-sedna.md", "Children beside Sedna's")]
    assert told == list(DIFFERENCES)
    met = {_why(it) for case in CASES for it in _differences(case)}
    assert met >= set(DIFFERENCES)


def _why(it: Difference) -> str | None:
    return next((name for name, explains in DIFFERENCES.items() if explains(it)), None)


# ── both sides, in the same form ──


def _differences(path: Path) -> Iterator[Difference]:
    case = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    sedna = _by_worker(case["children"])
    ours = _by_worker([_shown(it) for it in _made(case)])
    kind = _subject(case)["kind"]
    for key in sorted(sedna.keys() | ours.keys()):
        if key not in sedna and kind == "ObjectTrackingService":
            yield Difference((*key[:2], "is made"), None, True)
            continue
        theirs, mine = (dict(_leaves(side.get(key, {}), key)) for side in (sedna, ours))
        for leaf in sorted(theirs.keys() | mine.keys()):
            if theirs.get(leaf) != mine.get(leaf):
                yield Difference(leaf, theirs.get(leaf), mine.get(leaf))


def _by_worker(children: list[Json]) -> dict[tuple[str, ...], Json]:
    """By kind, type of worker, and number among them."""
    found: dict[tuple[str, ...], Json] = {}
    for child in children:
        (type_,) = (it for name, it in child["labels"].items() if name.endswith("/worker-type"))
        number = sum(key[:2] == (child["kind"], type_) for key in found)
        found[child["kind"], type_, str(number)] = child
    return found


def _leaves(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, dict) and not {"secretKeyRef"} & tree.keys():
        for name, child in tree.items():
            yield from _leaves(child, (*path, name))
    elif path[-1] == "mounts":
        for mount, times in Counter(map(_without_slashes, tree)).items():
            yield (*path, mount), times
    else:
        yield path, tree


def _without_slashes(mount: str) -> str:
    """A directory is the same with a slash at its end."""
    return re.sub(r"(?<=.)/(?= |$)", "", mount)


# ── what we make ──


def _subject(case: Json) -> Json:
    if name := case.get("sample"):
        subject: Json = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    else:
        subject = copy.deepcopy(case["object"])
    subject["metadata"] |= {"namespace": NAMESPACE, "uid": UID, "generation": 1}
    return subject


def _made(case: Json) -> list[Json]:
    """Every child that is made until the end of the first round."""
    cluster = Cluster(_subject(case))
    cluster.references = {}
    for key in references(cluster.kind, cluster.subject):
        cluster.references[key] = _reference(case, key)
    for name in sorted({*case.get("secrets", {}).values(), "keys"}):
        key = ObjectKey("secret", NAMESPACE, name)
        cluster.references[key] = secret(name, STORE)
    cluster.settle()
    made = dict(cluster.children)
    stages: Json = case.get("stages", {})
    trained = [{"format": "pb", "url": it} for it in stages.get("Eval", {}).get("models", [])[:1]]
    for stage in ("Train", "Eval"):
        if given := stages.get(stage):
            models = [{"format": "pb", "url": url} for url in given["models"]]
            body: Json = {"phase": stage, "status": "ready", "round": 1}
            cluster.report(body | {"input": given | {"models": models}})
            cluster.settle()
            made |= cluster.children
            pod = f"{cluster.subject['metadata']['name']}-{stage.lower()}-1-0"
            cluster.run(pod, "Running")
            cluster.settle()
            output = {"models": trained}
            cluster.report(body | {"status": "completed", "output": output})
            cluster.run(pod, "Succeeded")
            cluster.settle()
    # Of an incremental job, both make the pod that is there once more.
    if cluster.subject["kind"] == "LifelongLearningJob":
        deploy = {"phase": "Deploy", "status": "ready", "round": 1, "input": {"models": trained}}
        cluster.report(deploy)
        cluster.settle()
    made = cluster.children | made
    return [made[key] for key in sorted(made)]


def _reference(case: Json, key: ObjectKey) -> Json:
    if key.kind == "secret":
        return secret(key.name, STORE)
    if key.kind == "node":
        return {"kind": "Node", "metadata": {"name": key.name}}
    url, name = case.get("urls", {}).get(key.name), case.get("secrets", {}).get(key.name)
    credential = {"credentialName": name} if name else {}
    if key.kind == "model":
        return model(key.name, url=url or f"/srv/models/{key.name}.pb", **credential)
    return dataset(key.name, url=url or f"/srv/data/{key.name}/data.txt", **credential)


def _shown(child: Json) -> Json:
    metadata, spec = child["metadata"], child["spec"]
    shown = {name: metadata[name] for name in ("name", "labels", "annotations")}
    shown["kind"] = child["kind"]
    match child["kind"]:
        case "Pod":
            shown["pod"] = _pod(spec)
        case "Deployment":
            template = spec["template"]
            shown |= {name: spec[name] for name in spec if name not in ("template", "selector")}
            shown["selector"] = spec["selector"]["matchLabels"]
            shown["pod labels"] = template["metadata"]["labels"]
            shown["pod annotations"] = template["metadata"]["annotations"]
            shown["pod"] = _pod(template["spec"])
        case "Service":
            shown |= spec
        case "HorizontalPodAutoscaler":
            shown["autoscaler"] = spec
    return shown


def _pod(spec: Json) -> Json:
    volumes = {it["name"]: _source(it) for it in spec.get("volumes", [])}
    shown = {name: spec[name] for name in spec if name != "volumes"}
    for word in ("containers", "initContainers"):
        if word in spec:
            shown[word] = {it["name"]: _container(it, volumes) for it in spec[word]}
    return shown


def _container(container: Json, volumes: Mapping[str, str]) -> Json:
    apart = ("name", "env", "volumeMounts")
    shown = {it: container[it] for it in container if it not in apart}
    if container["name"] == "storage-initializer":
        # In pairs, whose order means nothing.
        pairs = iter(shown.pop("args"))
        shown["downloads"] = sorted(
            f"{url} to {path}" for url, path in zip(pairs, pairs, strict=True)
        )
    names = [it["name"] for it in container.get("env", [])]
    assert len(names) == len(set(names))
    shown["env"] = {
        it["name"]: it["value"] if "value" in it else it["valueFrom"]
        for it in container.get("env", [])
    }
    shown["mounts"] = [
        f"{it['mountPath']} = {volumes[it['name']]}" + ", read-only" * it.get("readOnly", False)
        for it in container.get("volumeMounts", [])
    ]
    return shown


def _source(volume: Json) -> str:
    match volume:
        case {"hostPath": {"path": path, "type": type_}}:
            return f"{type_} {path}"
        case {"persistentVolumeClaim": {"claimName": name}}:
            return f"claim {name}"
    assert "emptyDir" in volume, volume
    return "emptyDir"
