"""How long a stream lives where any GM may serve an LC.

A stream stays where it once was made, so after a rollout all LCs sit on the GMs that came first.
Therefore each is asked after a while to redial, which the Service sends anywhere: soon where this
GM is young, since it then is part of a rollout or has taken over from one that is gone; rarely
later, since each redial costs a snapshot. Chance keeps LCs from redialling together.
"""

from __future__ import annotations

from typing import Final

# Seconds: how long a GM counts as young, and how long streams made meanwhile live on average.
YOUTH: Final = 1800.0
YOUNG_LIFETIME: Final = 600.0
# Seconds: 1000 datasets of 600 bytes are 42 bytes a second.
LIFETIME: Final = 14400.0


def lifetime(gm_age: float, chance: float) -> float:
    """Seconds from its beginning until a stream is asked to redial; `chance` from [0, 1)."""
    mean = YOUNG_LIFETIME if gm_age < YOUTH else LIFETIME
    return mean * (0.5 + chance)
