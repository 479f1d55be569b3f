"""Why nothing can be made of an object: what its CRD could not know.

Each problem names the field, and the remedy. Guarantees: no object makes it raise; a reference of
which nothing is known yet is no problem. Two sorts: what is wrong in the object itself, and what it
refers to and does not exist, or is not there yet.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.file_url import REMEDY, InvalidUrl, parse_url
from edge_sidecars.sedna_api.core.kinds import DATASET, MODEL, ResourceKind
from gm.core.engine.conditions import MISSING_REFERENCE
from gm.core.engine.plan import NODE, SECRET, ObjectView
from gm.core.kind import Path, Problem, SednaKind
from gm.core.references import worker_parts
from gm.core.tree import found, items, mapping, text, values

# The end of a day, as an end only (ISO 8601, and Sedna's samples).
MIDNIGHT: Final = "24:00"
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_METRIC: Final = re.compile(r"\s*([^\s\[\]]+)\s*(\[\s*[0-9]+\s*\])?\s*", re.ASCII)
# LC/trigger/trigger.go
OPERATORS: Final = frozenset(
    [">", "gt", ">=", "ge", "=", "==", "eq", "!=", "ne", "<=", "le", "<", "lt"]
)


def problems(
    kind: SednaKind, view: ObjectView, *, refused_namespaces: Collection[str] = ()
) -> tuple[Problem, ...]:
    """In the order in which a reader would mend them."""
    object_ = view.object
    return (
        *_namespace_problems(kind, object_, refused_namespaces),
        *_template_problems(kind, object_),
        *kind.check(object_),
        *_reference_problems(kind, view),
        *_node_problems(kind, view),
    )


def _namespace_problems(
    kind: SednaKind, object_: Json, refused_namespaces: Collection[str]
) -> Iterator[Problem]:
    namespace = text(object_, "metadata", "namespace")
    if kind.workers and namespace in refused_namespaces:
        yield Problem(
            "metadata.namespace",
            f"no workers are made in {namespace}",
            "create it in another namespace, or start gm with --allow-kube-system true",
        )


def url_problem(field: str, url: str) -> Problem | None:
    """Of what a Dataset, a Model or an output directory may be."""
    try:
        parse_url(url)
    except InvalidUrl as error:
        return Problem(field, str(error), REMEDY)
    return None


def trigger_problems(object_: Json, path: Path, *, metrics: str = "") -> Iterator[Problem]:
    """Of a trigger of an il or ll; `metrics`: the only one that there is, if there is only one."""
    where = ".".join(path)
    for field, value in mapping(object_, *path, "timer").items():
        is_midnight = field == "end" and value == MIDNIGHT
        if not is_midnight and (not isinstance(value, str) or not _CLOCK.fullmatch(value)):
            yield Problem(f"{where}.timer.{field}", f"{value!r:.40} is no time", 'write "HH:MM"')
    condition = mapping(object_, *path, "condition")
    if not condition:
        return
    operator, metric = text(condition, "operator"), text(condition, "metric")
    if operator not in OPERATORS:
        yield Problem(
            f"{where}.condition.operator",
            f"{operator!r:.40} is no operator",
            "use one of > >= = != <= <, or gt ge eq ne le lt",
        )
    found_metric = _METRIC.fullmatch(metric)
    if not found_metric or (metrics and found_metric[1] != metrics):
        yield Problem(
            f"{where}.condition.metric",
            f"{metric!r:.40} is no metric of this stage",
            f"use {metrics or 'a name, or a name and an index such as precision_delta[0]'}",
        )


def _template_problems(kind: SednaKind, object_: Json) -> Iterator[Problem]:
    for worker in kind.workers:
        parts = worker_parts(worker, object_)
        if not parts:
            path = ".".join(worker.path).replace(".*", "")
            yield Problem(path, "is empty", "give at least one worker")
        for where, part in parts:
            field = f"{where}.template.spec"
            containers = items(part, "template", "spec", "containers")
            if not containers:
                yield Problem(f"{field}.containers", "there is none", "give the worker's container")
            for index, one in enumerate(containers):
                if not text(one, "name") or not text(one, "image"):
                    yield Problem(
                        f"{field}.containers[{index}]", "has no name or no image", "give both"
                    )
            if worker.needs_node and not text(part, "template", "spec", "nodeName"):
                yield Problem(
                    f"{field}.nodeName",
                    "is empty, so nobody knows whose LC is to be told",
                    "name the edge node",
                )


def _reference_problems(kind: SednaKind, view: ObjectView) -> Iterator[Problem]:
    for resource, paths, is_optional in (
        (MODEL, kind.models, False),
        (MODEL, kind.optional_models, True),
        (DATASET, kind.datasets, False),
    ):
        for path in paths:
            for where, name in found(view.object, path):
                yield from _referred(view, resource, where, name, is_optional=is_optional)
    for path in (*kind.secrets, ("spec", "credentialName")):
        for where, name in found(view.object, path):
            if isinstance(name, str) and name:
                yield from _missing(view, SECRET, "Secret", where, name)
    if kind.resource in (DATASET, MODEL):
        url = text(view.object, "spec", "url")
        if problem := url_problem("spec.url", url):
            yield problem


def _referred(
    view: ObjectView, resource: ResourceKind, where: str, name: object, *, is_optional: bool
) -> Iterator[Problem]:
    if not isinstance(name, str) or not name:
        if not is_optional:
            yield Problem(where, "is empty", f"name a {resource.kind}")
        return
    yield from _missing(view, resource.singular, resource.kind, where, name)
    referred = _lookup(view.references, view.object, resource.singular, name)
    if not referred:
        return
    if problem := url_problem(f"{resource.kind} {name}: spec.url", text(referred, "spec", "url")):
        yield problem
    if secret := text(referred, "spec", "credentialName"):
        field = f"{resource.kind} {name}: spec.credentialName"
        yield from _missing(view, SECRET, "Secret", field, secret)


def _node_problems(kind: SednaKind, view: ObjectView) -> Iterator[Problem]:
    fields = {"spec.nodeName": text(view.object, "spec", "nodeName")}
    for worker in kind.workers:
        for where, part in worker_parts(worker, view.object):
            fields[f"{where}.template.spec.nodeName"] = text(part, "template", "spec", "nodeName")
    for path in kind.datasets:
        for name in values(view.object, path):
            dataset = _lookup(view.references, view.object, DATASET.singular, name)
            fields[f"Dataset {name}: spec.nodeName"] = text(dataset, "spec", "nodeName")
    for field, node in fields.items():
        if node:
            remedy = "name a node of this cluster, or let it join"
            yield from _absent(view, ObjectKey(NODE, "", node), "Node", field, remedy)


def _missing(view: ObjectView, kind: str, word: str, where: str, name: str) -> Iterator[Problem]:
    key = ObjectKey(kind, text(view.object, "metadata", "namespace"), name)
    yield from _absent(view, key, word, where, "create it in this namespace, or name another")


def _absent(
    view: ObjectView, key: ObjectKey, word: str, where: str, remedy: str
) -> Iterator[Problem]:
    if view.references.get(key, {}) is None:
        yield Problem(
            where,
            f"{word} {key.name} does not exist",
            remedy,
            MISSING_REFERENCE,
            is_awaited=key in view.awaited,
        )


def _lookup(
    references: Mapping[ObjectKey, Json | None], object_: Json, kind: str, name: object
) -> Json:
    if not isinstance(name, str):
        return {}
    return references.get(ObjectKey(kind, text(object_, "metadata", "namespace"), name)) or {}
