"""What an object refers to, which nodes it concerns, and which Models go with it.

Guarantees: pure functions of the object and of what it refers to; a name that is no text is no
reference. Knows nothing of whether something exists.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import DATASET, MODEL
from gm.core.engine.plan import NODE, SECRET
from gm.core.kind import Path, Rule, SednaKind, WorkerSpec
from gm.core.tree import found, mapping, text, values

# Annotations of a staged kind: the node where the newest pod of a stage is (Sedna's names).
STAGE_NODES = ("sedna.io/Train", "sedna.io/Eval", "sedna.io/Deploy")
# Nodes, by comma, where the scheduler put workers whose LC gets the object.
WORKER_NODES = "sedna.io/worker-nodes"

_DATASET = DATASET.singular
_MODEL = MODEL.singular
_NOTHING: Mapping[ObjectKey, Json | None] = MappingProxyType({})


def references(
    kind: SednaKind, object_: Json, known: Mapping[ObjectKey, Json | None] = _NOTHING
) -> frozenset[ObjectKey]:
    """What `decide` has to be given. It grows with what is known: ask again with what was found,
    until nothing new comes (a Model has a Secret, a Dataset a node)."""
    namespace = text(object_, "metadata", "namespace")
    keys = set(models(kind, object_, every=True))
    keys |= {ObjectKey(_DATASET, namespace, it) for it in _names(object_, kind.datasets)}
    further = [led_to(known[key]) for key in keys if key in known]
    keys |= {ObjectKey(SECRET, namespace, name) for name in _names(object_, kind.secrets)}
    keys |= {ObjectKey(NODE, "", name) for name in _template_nodes(kind, object_) if name}
    return led_to(object_).union(keys, *further)


def led_to(document: Json | None) -> frozenset[ObjectKey]:
    """What a Dataset or a Model refers to, and what each of Sedna's objects may."""
    keys = set()
    if secret := text(document, "spec", "credentialName"):
        keys.add(ObjectKey(SECRET, text(document, "metadata", "namespace"), secret))
    if node := text(document, "spec", "nodeName"):
        keys.add(ObjectKey(NODE, "", node))
    return frozenset(keys)


def nodes(
    kind: SednaKind, object_: Json, known: Mapping[ObjectKey, Json | None] = _NOTHING
) -> frozenset[str]:
    """The nodes whose LC gets the object and may report about it."""
    if kind.resource is DATASET:
        return frozenset(filter(None, {text(object_, "spec", "nodeName")}))
    concerned = set(_template_nodes(kind, object_, told_only=True))
    annotations = mapping(object_, "metadata", "annotations")
    concerned.update(text(annotations, WORKER_NODES).split(","))
    if kind.rule is Rule.STAGED:
        namespace = text(object_, "metadata", "namespace")
        for name in _names(object_, kind.datasets):
            dataset = known.get(ObjectKey(_DATASET, namespace, name))
            concerned.add(text(dataset, "spec", "nodeName"))
        concerned.update(text(annotations, stage) for stage in STAGE_NODES)
    return frozenset(filter(None, concerned))


def models(kind: SednaKind, object_: Json, *, every: bool = False) -> tuple[ObjectKey, ...]:
    """The Models that LCs get with the object; `every`: all that it names."""
    paths = (*kind.models, *kind.optional_models) if every else kind.told_models
    namespace = text(object_, "metadata", "namespace")
    names = dict.fromkeys(_names(object_, paths))
    return tuple(ObjectKey(_MODEL, namespace, name) for name in names)


def worker_parts(worker: WorkerSpec, object_: Json) -> list[tuple[str, Json]]:
    """What has the worker's template, once for each, with its place."""
    return [
        (where, part if isinstance(part, dict) else {})
        for where, part in found(object_, worker.path)
    ]


def _template_nodes(kind: SednaKind, object_: Json, *, told_only: bool = False) -> Iterator[str]:
    for worker in kind.workers:
        if worker.is_told or not told_only:
            for part in values(object_, worker.path):
                yield text(part, "template", "spec", "nodeName")


def _names(object_: Json, paths: tuple[Path, ...]) -> Iterator[str]:
    for path in paths:
        for name in values(object_, path):
            if isinstance(name, str) and name:
                yield name
