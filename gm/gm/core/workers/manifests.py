"""The manifests of children: pods, Deployments, Services, HorizontalPodAutoscalers.

Guarantees: the user's template as it is, and to it what Sedna's workers expect (prior art 2); the
same inputs give the same manifest, whose hash is in its annotation, so that an edit, and
nothing else, makes a difference. Nothing of the given object is changed or shared.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from edge_sidecars.sedna_api.core.api_object import Json
from edge_sidecars.sedna_api.core.kinds import API_VERSION
from gm.core.kind import DEFAULT_LC_SERVER, LC_SERVER, SednaKind, Site, WorkerSpec
from gm.core.names import (
    APP_LABEL,
    GENERATION,
    MANAGED_BY,
    MANAGER,
    ROUND_LABEL,
    SPEC_HASH,
    child_name,
    label_value,
    service_name,
    worker_labels,
)
from gm.core.tree import copied, mapping, number, objects, part, text
from gm.core.workers.storage import WorkerStorage, storage

# What workers had by default before they had capabilities.
_FORMER_LC_SERVER: Final = "http://localhost:9100"
# Hexadecimal digits of the hash of a manifest: 64 bits.
_DIGITS: Final = 16
# Of a DeploymentSpec inline in ours; selector and template are made, replicas may be HPA's.
_DEPLOYMENT_FIELDS: Final = (
    "minReadySeconds",
    "paused",
    "progressDeadlineSeconds",
    "revisionHistoryLimit",
    "strategy",
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A worker to be: its place in the object, and the name of the child that it becomes.

    `round` is None where the kind has none.
    """

    worker: WorkerSpec
    where: str
    part: Json
    kind: str
    name: str
    round: int | None = None


def spec_hash(manifest: Json) -> str:
    """What the annotation says."""
    return text(manifest, "metadata", "annotations", SPEC_HASH)


def pod(kind: SednaKind, slot: Slot, site: Site, *, generation: int = 0) -> Json:
    """`generation`: of the object, where an edit of it replaces every pod."""
    worker = slot.worker
    template = mapping(slot.part, "template")
    metadata = _metadata(kind, site, worker, slot.name, template)
    if slot.round is not None:
        metadata["labels"][ROUND_LABEL] = str(slot.round)
    if generation:
        metadata["annotations"][GENERATION] = str(generation)
    spec = _pod_spec(template, worker, site, is_deployed=False)
    return _child("v1", "Pod", metadata, spec, hashed=_of_any_capability(spec, site))


def deployment(kind: SednaKind, slot: Slot, site: Site) -> Json:
    worker = slot.worker
    template = mapping(slot.part, "template")
    selected = _selected(kind, site, worker)
    app = {APP_LABEL: label_value(f"{site.job}-{worker.type}-svc")}
    inner = {
        "labels": {**mapping(template, "metadata", "labels"), **_labels(kind, site, worker), **app},
        "annotations": dict(mapping(template, "metadata", "annotations")),
    }
    spec: Json = {
        "selector": {"matchLabels": selected | app},
        "template": {
            "metadata": inner,
            "spec": _pod_spec(template, worker, site, is_deployed=True),
        },
    }
    for field in _DEPLOYMENT_FIELDS:
        if (value := part(slot.part, field)) is not None:
            spec[field] = copied(value)
    if not mapping(slot.part, "hpa"):
        spec["replicas"] = number(slot.part, "replicas", default=1)
    metadata = _metadata(kind, site, worker, slot.name, {})
    metadata["labels"] |= app
    return _child("apps/v1", "Deployment", metadata, spec)


def service(kind: SednaKind, slot: Slot, site: Site) -> Json:
    """EdgeMesh wants the port's name to begin with its protocol."""
    worker = slot.worker
    port = {"name": "tcp-0", "protocol": "TCP", "port": worker.port, "targetPort": worker.port}
    spec = {
        "selector": _selected(kind, site, worker),
        "ports": [port],
    }
    name = service_name(site.job, worker.type)
    metadata = _metadata(kind, site, worker, name, {})
    return _child("v1", "Service", metadata, spec)


def autoscaler(kind: SednaKind, slot: Slot, site: Site) -> Json:
    wanted = copied(mapping(slot.part, "hpa"))
    fields = ("minReplicas", "maxReplicas", "metrics", "behavior")
    spec: Json = {key: wanted[key] for key in fields if wanted.get(key) is not None}
    spec["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": slot.name}
    metadata = _metadata(kind, site, slot.worker, f"hpa-{slot.name}", {})
    return _child("autoscaling/v2", "HorizontalPodAutoscaler", metadata, spec)


def slot_name(job: str, worker: WorkerSpec, index: int, round_: int | None) -> str:
    """Deployments have Sedna's names, so that one of Sedna's is found and replaced."""
    if worker.workload.value == "Deployment":
        return child_name(job, "deployment", worker.type)
    numbers = (str(index),) if round_ is None else (str(round_), str(index))
    return child_name(job, worker.type, *numbers)


def _uid(site: Site) -> str:
    return text(site.object, "metadata", "uid")


def _selected(kind: SednaKind, site: Site, worker: WorkerSpec) -> dict[str, str]:
    """The labels by which Services and Deployments select the worker's pods."""
    return worker_labels(kind.resource, site.job, _uid(site), worker.type)


def _labels(kind: SednaKind, site: Site, worker: WorkerSpec) -> dict[str, str]:
    return _selected(kind, site, worker) | {MANAGED_BY: MANAGER}


def _metadata(kind: SednaKind, site: Site, worker: WorkerSpec, name: str, template: Json) -> Json:
    owner = {
        "apiVersion": API_VERSION,
        "kind": kind.resource.kind,
        "name": site.job,
        "uid": _uid(site),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": site.namespace,
        "labels": {**mapping(template, "metadata", "labels"), **_labels(kind, site, worker)},
        "annotations": dict(mapping(template, "metadata", "annotations")),
        "ownerReferences": [owner],
    }


def _pod_spec(template: Json, worker: WorkerSpec, site: Site, *, is_deployed: bool) -> Json:
    spec = copied(mapping(template, "spec"))
    settings = worker.settings(site)
    given = storage(settings, site.object, site.references)
    spec["containers"] = [_equipped(one, given) for one in objects(spec, "containers")]
    taken = {text(one, "name") for one in given.volumes}
    own = [one for one in objects(spec, "volumes") if text(one, "name") not in taken]
    if own or given.volumes:
        spec["volumes"] = [*own, *copied(given.volumes)]
    if given.initializer is not None:
        initial = list(objects(spec, "initContainers"))
        spec["initContainers"] = [*initial, copied(given.initializer)]
    if worker.host_network:
        spec["hostNetwork"] = True
    if worker.restart_policy and not spec.get("restartPolicy") and not is_deployed:
        spec["restartPolicy"] = worker.restart_policy
    if worker.dns_policy and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = worker.dns_policy
    return spec


def _equipped(container: Json, given: WorkerStorage) -> Json:
    """With our environment, which wins, and our mounts, where the user has none at that place."""
    ours = {text(one, "name") for one in given.environment}
    theirs = [one for one in objects(container, "env") if text(one, "name") not in ours]
    mounted = list(objects(container, "volumeMounts"))
    taken = {text(one, "mountPath").rstrip("/") for one in mounted}
    added: Sequence[Json] = [one for one in given.mounts if text(one, "mountPath") not in taken]
    equipped = dict(container)
    equipped["env"] = [*theirs, *copied(given.environment)]
    if mounted or added:
        equipped["volumeMounts"] = [*mounted, *copied(added)]
    return equipped


def _of_any_capability(spec: Json, site: Site) -> Json:
    """As a release before capabilities made it: a pod that works towards its end is not made anew
    because it has none, or another one."""
    server = site.settings.lc_server
    value = _FORMER_LC_SERVER if server == DEFAULT_LC_SERVER else server

    def plain(container: Json) -> Json:
        env = [
            {"name": LC_SERVER, "value": value} if it.get("name") == LC_SERVER else it
            for it in container["env"]
        ]
        return {**container, "env": env}

    return {**spec, "containers": [plain(it) for it in spec["containers"]]}


def _child(
    api_version: str, kind: str, metadata: Json, spec: Json, *, hashed: Json | None = None
) -> Json:
    """With the hash of all the rest among its annotations; `hashed` in the place of the spec."""
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    subject = manifest if hashed is None else {**manifest, "spec": hashed}
    encoded = msgspec.json.encode(subject, order="deterministic")
    metadata["annotations"][SPEC_HASH] = hashlib.sha256(encoded).hexdigest()[:_DIGITS]
    return manifest
