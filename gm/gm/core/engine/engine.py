"""What is to be done about one object: the one question that GM's operators ask.

Owns the order: reports are folded in, then it is asked what is wrong with the object, then its
kind's rule says what follows. Guarantees: the same View at the same `now` gives the same Decision;
deciding again on what a Decision led to ends, after finitely many steps, in one that changes
nothing; one object's decision never touches another's children or status (a Model's metrics apart).
"""

from collections.abc import Callable
from datetime import datetime

from edge_sidecars.sedna_api.core.node_label import node_label
from gm.core.engine.merge_reports import fold
from gm.core.engine.plan import Decision
from gm.core.engine.reconcile_context import Draft
from gm.core.engine.view import View
from gm.core.kind import Kind, Rule, Settings
from gm.core.references import WORKER_NODES, models, nodes, references
from gm.core.rules import job, record, service, staged, stages
from gm.core.tree import mapping, text
from gm.core.validation import problems
from gm.core.workers.children import is_leaving, stands_for
from gm.core.workers.slots import worker_type

__all__ = ["decide", "models", "nodes", "references", "stands_for"]


def decide(kind: Kind, view: View, *, now: datetime, settings: Settings) -> Decision:
    """`now` knows its zone."""
    labels = _labels(kind, view)
    if text(view.object, "metadata", "deletionTimestamp"):
        # Its children go with it: the garbage collector's work.
        return Decision(labels=labels)
    draft = Draft.of(kind, view, now=now, settings=settings)
    if kind.rule is Rule.STAGED:
        stages.begin(draft)
    fold(draft)
    draft.problems = problems(kind, view, refused_namespaces=settings.refused_namespaces)
    _RULES[kind.rule](draft)
    _annotate(draft)
    return draft.decision(labels, draft.annotations)


def _labels(kind: Kind, view: View) -> frozenset[str]:
    concerned = nodes(kind, view.object, view.references) | view.concerned
    return frozenset(map(node_label, concerned))


def _annotate(draft: Draft) -> None:
    """Nodes that no template names, where the scheduler put workers whose LC is to be told."""
    told = {it.label for it in draft.kind.workers if it.is_told}
    if draft.kind.rule is Rule.STAGED or not told:
        return
    named = nodes(draft.kind, {**draft.subject, "metadata": {}}, draft.view.references)
    scheduled = {
        text(it, "spec", "nodeName")
        for it in draft.view.children
        if worker_type(draft.kind, it) in told and not is_leaving(it)
    }
    wanted = ",".join(sorted(scheduled - named - {""}))
    if wanted != text(mapping(draft.subject, "metadata", "annotations"), WORKER_NODES):
        draft.annotations[WORKER_NODES] = wanted


_RULES: dict[Rule, Callable[[Draft], None]] = {
    Rule.RECORD: record.act,
    Rule.JOB: job.act,
    Rule.SERVICE: service.act,
    Rule.STAGED: staged.act,
}
