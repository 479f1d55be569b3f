"""Which workers an object has: one slot for each of its templates, and all children of a slot.

Guarantees: slots depend on nothing but the object, manifests beyond that only on what it refers to
and on what was reported for the stage.
"""

import posixpath
from collections.abc import Iterator, Sequence

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.reconcile_context import Draft
from gm.core.kind import Kind, Rule, Site, Worker, Workload
from gm.core.names import ROUND_LABEL
from gm.core.references import references, worker_parts
from gm.core.tree import mapping, text
from gm.core.workers.manifests import Slot, autoscaler, deployment, pod, service, slot_name
from gm.core.workers.storage import credentials, host_directories


def slots(kind: Kind, object_: Json, worker: Worker, *, round_: int | None = None) -> list[Slot]:
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


def every_slot(kind: Kind, object_: Json) -> list[Slot]:
    """Of a kind without stages."""
    return [slot for worker in kind.workers for slot in slots(kind, object_, worker)]


def assembled(draft: Draft, wanted: Sequence[tuple[Slot, Json]]) -> list[Json]:
    """All children of slots, each with what LC reported for its stage."""
    there = {text(it, "metadata", "name") for it in draft.view.children}
    made: list[Json] = []
    for slot, input_ in wanted:
        site = _site(draft, slot, input_)
        made += _manifests(draft, slot, site)
        if slot.name not in there:
            _warn_of_secrets(draft, slot, site)
    return made


def foreign_directories(draft: Draft, slot: Slot, input_: Json) -> list[str]:
    """Of the worker's node, which it would be given because LC named them, and which are neither
    in the job's outputDir nor where a Dataset or Model of the job lies: LC may stand for a node,
    the worker may run on another."""
    given = host_directories(slot.worker.settings(_site(draft, slot, input_)))
    return sorted(given - set(_own_directories(draft)) - _below_output(draft, given))


def _below_output(draft: Draft, directories: frozenset[str]) -> set[str]:
    output = text(draft.subject, "spec", "outputDir")
    if not output.startswith("/"):
        return set()
    top = posixpath.join(posixpath.normpath(output), "")
    return {it for it in directories if posixpath.join(it, "").startswith(top)}


def _own_directories(draft: Draft) -> Iterator[str]:
    for key in references(draft.kind, draft.subject):
        url = text(draft.view.references.get(key), "spec", "url")
        if url.startswith("/"):
            yield posixpath.dirname(posixpath.normpath(url))


def _warn_of_secrets(draft: Draft, slot: Slot, site: Site) -> None:
    for secrets in credentials(slot.worker.settings(site)):
        if len(secrets) > 1:
            draft.note(
                "OneSecretOnly",
                f"{slot.where} gets the keys of Secret {secrets[0]} only, and refers to what needs "
                f"{', '.join(secrets[1:])}: let all of it name the same credentialName",
                is_warning=True,
            )


def _site(draft: Draft, slot: Slot, input_: Json) -> Site:
    return Site(
        object={**draft.subject, "kind": draft.kind.resource.kind},
        part=slot.part,
        name=slot.name,
        references=draft.view.references,
        settings=draft.settings,
        input=input_,
        history=tuple(draft.log.newest()),
    )


def _manifests(draft: Draft, slot: Slot, site: Site) -> list[Json]:
    kind = draft.kind
    if slot.worker.workload is Workload.DEPLOYMENT:
        made = [deployment(kind, slot, site)]
        if mapping(slot.part, "hpa"):
            made.append(autoscaler(kind, slot, site))
    else:
        # A job's pods belong together: an edit of it begins all of them anew.
        generation = draft.generation if kind.rule is Rule.JOB else 0
        made = [pod(kind, slot, site, generation=generation)]
    if slot.worker.port and not _has_service(draft, slot):
        made.append(service(kind, slot, site))
    return made


def _has_service(draft: Draft, slot: Slot) -> bool:
    """One Service for all pods of a worker: the first slot's."""
    first = slots(draft.kind, draft.subject, slot.worker, round_=slot.round)[0]
    return slot.name != first.name


def worker_type(kind: Kind, child: Json) -> str:
    """By its label."""
    labels = mapping(child, "metadata", "labels")
    return text(labels, f"{kind.resource.singular}.sedna.io/worker-type")


def child_round(child: Json) -> int:
    """Of a staged kind's pod; -1 where it says none."""
    label = text(child, "metadata", "labels", ROUND_LABEL)
    return int(label) if label.isascii() and label.isdecimal() else -1
