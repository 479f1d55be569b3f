"""How many examples a drawn test plays: HYPOTHESIS_PROFILE is `check`, `nightly` or absent.

`make check` plays a tenth of what `make test` plays; a nightly run plays a hundred times as much.
"""

import os

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "")


def examples(count: int, *, nightly: int = 100) -> int:
    """Returns the number of examples where `make test` plays `count`."""
    match PROFILE:
        case "check":
            return max(count // 10, 5)
        case "nightly":
            return count * nightly
        case _:
            return count


def play(histories: int, *, steps: int = 50) -> settings:
    """Returns the settings of a test that plays whole histories."""
    return settings(max_examples=examples(histories), stateful_step_count=steps, deadline=None)
