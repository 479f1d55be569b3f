"""Rule record: an object without children. It is valid or not, and that is all.

no condition --problem--> Failed --repaired--> Ready
"""

from gm.core.engine.conditions import READY
from gm.core.engine.reconcile_context import Draft


def act(draft: Draft) -> None:
    """What follows from the view."""
    if draft.problems:
        draft.stand(draft.problems)
    elif draft.log.is_repaired and not draft.log.added:
        draft.log.append(READY, reason="Repaired", message="nothing is wrong with it any more")
        draft.note("Repaired", "Nothing is wrong with it any more")
