"""How much a drawn test plays; a hundred times as much with HYPOTHESIS_PROFILE=nightly."""

import os

from hypothesis import settings

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def play(histories: int, *, steps: int = 50) -> settings:
    return settings(
        max_examples=histories * 100 if IS_NIGHTLY else histories,
        stateful_step_count=steps,
        deadline=None,
    )
