"""Rule record: an object without children. It is valid or not, and that is all.

no condition --problem--> Failed --repaired--> Ready
"""

from gm.core.engine.conditions import READY
from gm.core.engine.reconcile_context import ReconcileContext


def act(context: ReconcileContext) -> None:
    """What follows from the view."""
    if context.problems:
        context.stand(context.problems)
    elif context.log.is_repaired and not context.log.added:
        context.log.append(READY, reason="Repaired", message="nothing is wrong with it any more")
        context.note("Repaired", "Nothing is wrong with it any more")
