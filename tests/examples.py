"""How many examples a drawn test plays, by HYPOTHESIS_PROFILE.

Without one all of them, with `short` (`make test`) a half, with `check` (`make check`) a tenth,
with `nightly` a hundred times as many.
"""

import os

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "")


def examples(count: int, *, nightly: int = 100) -> int:
    """Returns the number of examples where a run by hand plays `count`."""
    match PROFILE:
        case "check":
            return max(count // 10, 5)
        case "short":
            return max(count // 2, 5)
        case "nightly":
            return count * nightly
        case _:
            return count


def play(histories: int, *, steps: int = 50) -> settings:
    """Returns the settings of a test that plays whole histories."""
    return settings(max_examples=examples(histories), stateful_step_count=steps, deadline=None)
