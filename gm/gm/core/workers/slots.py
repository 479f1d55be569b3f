"""Which workers an object has: one slot for each of its templates, and all children of a slot.

Guarantees: slots depend on nothing but the object, manifests beyond that only on what it refers to
and on what was reported for the stage.
"""

import posixpath
from collections.abc import Iterator, Sequence

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.kind import Rule, SednaKind, Site, WorkerSpec, Workload
from gm.core.names import ROUND_LABEL
from gm.core.references import references, worker_parts
from gm.core.tree import mapping, text
from gm.core.workers.manifests import Slot, autoscaler, deployment, pod, service, slot_name
from gm.core.workers.storage import credentials, host_directories


def slots(
    kind: SednaKind, object_: Json, worker: WorkerSpec, *, round_: int | None = None
) -> list[Slot]:
    """Of one worker of the table; `round_` of a staged kind."""
    job = text(object_, "metadata", "name")
    return [
        Slot(
            worker=worker,
            where=where,
            part=part,
            kind=worker.workload.value,
            name=slot_name(job, worker, index, round_),
            round=round_,
        )
        for index, (where, part) in enumerate(worker_parts(worker, object_))
    ]


def every_slot(kind: SednaKind, object_: Json) -> list[Slot]:
    """Of a kind without stages."""
    return [slot for worker in kind.workers for slot in slots(kind, object_, worker)]


def assembled(context: ReconcileContext, wanted: Sequence[tuple[Slot, Json]]) -> list[Json]:
    """All children of slots, each with what LC reported for its stage."""
    there = {text(it, "metadata", "name") for it in context.view.children}
    made: list[Json] = []
    for slot, input_ in wanted:
        site = _site(context, slot, input_)
        made += _manifests(context, slot, site)
        if slot.name not in there:
            _warn_of_secrets(context, slot, site)
    return made


def foreign_directories(context: ReconcileContext, slot: Slot, input_: Json) -> list[str]:
    """Of the worker's node, which it would be given because LC named them, and which are neither
    in the job's outputDir nor where a Dataset or Model of the job lies. LC may name paths for one
    node, and the worker may run on another."""
    given = host_directories(slot.worker.settings(_site(context, slot, input_)))
    return sorted(given - set(_own_directories(context)) - _below_output(context, given))


def _below_output(context: ReconcileContext, directories: frozenset[str]) -> set[str]:
    output = text(context.subject, "spec", "outputDir")
    if not output.startswith("/"):
        return set()
    top = posixpath.join(posixpath.normpath(output), "")
    return {it for it in directories if posixpath.join(it, "").startswith(top)}


def _own_directories(context: ReconcileContext) -> Iterator[str]:
    for key in references(context.kind, context.subject):
        url = text(context.view.references.get(key), "spec", "url")
        if url.startswith("/"):
            yield posixpath.dirname(posixpath.normpath(url))


def _warn_of_secrets(context: ReconcileContext, slot: Slot, site: Site) -> None:
    for secrets in credentials(slot.worker.settings(site)):
        if len(secrets) > 1:
            context.note(
                "OneSecretOnly",
                f"{slot.where} gets the keys of Secret {secrets[0]} only, and refers to what needs "
                f"{', '.join(secrets[1:])}: let all of it name the same credentialName",
                is_warning=True,
            )


def _site(context: ReconcileContext, slot: Slot, input_: Json) -> Site:
    return Site(
        object={**context.subject, "kind": context.kind.resource.kind},
        part=slot.part,
        name=slot.name,
        references=context.view.references,
        settings=context.settings,
        input=input_,
        history=tuple(context.log.newest()),
        worker_key=context.worker_key,
    )


def _manifests(context: ReconcileContext, slot: Slot, site: Site) -> list[Json]:
    kind = context.kind
    if slot.worker.workload is Workload.DEPLOYMENT:
        made = [deployment(kind, slot, site)]
        if mapping(slot.part, "hpa"):
            made.append(autoscaler(kind, slot, site))
    else:
        # A job's pods belong together: an edit of it begins all of them anew.
        generation = context.generation if kind.rule is Rule.JOB else 0
        made = [pod(kind, slot, site, generation=generation)]
    if slot.worker.port and not _has_service(context, slot):
        made.append(service(kind, slot, site))
    return made


def _has_service(context: ReconcileContext, slot: Slot) -> bool:
    """One Service for all pods of a worker: the first slot's."""
    first = slots(context.kind, context.subject, slot.worker, round_=slot.round)[0]
    return slot.name != first.name


def worker_type(kind: SednaKind, child: Json) -> str:
    """By its label."""
    labels = mapping(child, "metadata", "labels")
    return text(labels, f"{kind.resource.singular}.sedna.io/worker-type")


def child_round(child: Json) -> int:
    """Of a staged kind's pod; -1 where it says none."""
    label = text(child, "metadata", "labels", ROUND_LABEL)
    return int(label) if label.isascii() and label.isdecimal() else -1
