"""The plan for one object, which GM's controller asks for.

Owns the order: reports are merged, then it is asked what is wrong with the object, then its kind's
rule says what follows. Guarantees: The same view at the same `now` gives the same plan. Deciding
again on what a plan led to ends, after finitely many steps, in a plan that changes nothing. One
object's plan never touches another's children or status (a Model's metrics apart).
"""

from collections.abc import Callable
from datetime import datetime

from edge_sidecars.sedna_api.core.kinds import node_label
from gm.core.engine.conditions import READY
from gm.core.engine.merge_reports import merge_reports
from gm.core.engine.plan import ObjectView, ReconcilePlan
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.kind import Rule, SednaKind, WorkerSettings
from gm.core.references import WORKER_NODES, models, nodes, references
from gm.core.rules import job, service, staged, stages
from gm.core.tree import mapping, text
from gm.core.validation import problems
from gm.core.workers.children import is_leaving, stands_for
from gm.core.workers.slots import worker_type

__all__ = ["decide", "models", "nodes", "references", "stands_for"]


def decide(
    kind: SednaKind, view: ObjectView, *, now: datetime, settings: WorkerSettings
) -> ReconcilePlan:
    """`now` knows its zone."""
    labels = _labels(kind, view)
    if text(view.object, "metadata", "deletionTimestamp"):
        # Its children go with it: the garbage collector's work.
        return ReconcilePlan(labels=labels)
    context = ReconcileContext.of(kind, view, now=now, settings=settings)
    if kind.rule is Rule.STAGED:
        stages.begin(context)
    merge_reports(context)
    context.problems = problems(kind, view, refused_namespaces=settings.refused_namespaces)
    _RULES[kind.rule](context)
    _annotate(context)
    context.keep_worker_key()
    return context.plan(labels, context.annotations)


def _labels(kind: SednaKind, view: ObjectView) -> frozenset[str]:
    concerned = nodes(kind, view.object, view.references) | view.concerned
    return frozenset(map(node_label, concerned))


def _annotate(context: ReconcileContext) -> None:
    """Nodes that no template names, where the scheduler put workers whose LC gets the object."""
    labels = {it.label for it in context.kind.workers if it.is_told}
    if context.kind.rule is Rule.STAGED or not labels:
        return
    named = nodes(context.kind, {**context.subject, "metadata": {}}, context.view.references)
    scheduled = {
        text(it, "spec", "nodeName")
        for it in context.view.children
        if worker_type(context.kind, it) in labels and not is_leaving(it)
    }
    wanted = ",".join(sorted(scheduled - named - {""}))
    if wanted != text(mapping(context.subject, "metadata", "annotations"), WORKER_NODES):
        context.annotations[WORKER_NODES] = wanted


def _act_record(context: ReconcileContext) -> None:
    """Rule record: an object without children. It is valid or not, and that is all.

    no condition --problem--> Failed --repaired--> Ready
    """
    if context.problems:
        context.stand(context.problems)
    elif context.log.is_repaired and not context.log.added:
        context.log.append(READY, reason="Repaired", message="nothing is wrong with it any more")
        context.note("Repaired", "Nothing is wrong with it any more")


_RULES: dict[Rule, Callable[[ReconcileContext], None]] = {
    Rule.RECORD: _act_record,
    Rule.JOB: job.act,
    Rule.SERVICE: service.act,
    Rule.STAGED: staged.act,
}
