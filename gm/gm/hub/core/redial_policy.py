"""When an LC is to dial again: to spread LCs over GMs, not all at once, and if it knows more.

Rebalancing: a stream stays where it once was made, so after a rollout all LCs sit on the GMs that
came first. Therefore each is asked after a while to redial, which the Service sends anywhere. That
is soon where this GM is young, since it then is part of a rollout or has taken over from one that
is gone. It is rare later, since each redial costs a snapshot. Chance keeps LCs from redialling
together. Pacing: a GM takes a connection in about a millisecond; 1000 LCs that lost it at one
moment and dial within a tenth of a second would keep it from everything else. Restore detection: an
LC that knows more than this GM mostly finds GM's watch late by a moment: LC waits, then tries
another GM. But a cluster that was restored or made anew never comes to what LC knows: after a while
in which the link was up and the watch stood, the history is taken to be rewound. Knows no clock.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from edge_sidecars.runtime.backoff import FIRST

# Seconds: how long a GM counts as young, and how long streams made meanwhile live on average.
YOUTH: Final = 1800.0
YOUNG_LIFETIME: Final = 600.0
# Seconds: 1000 datasets of 600 bytes are 42 bytes a second.
LIFETIME: Final = 14400.0


def lifetime(gm_age: float, chance: float) -> float:
    """Seconds from its beginning until a stream is asked to redial; `chance` from [0, 1)."""
    mean = YOUNG_LIFETIME if gm_age < YOUTH else LIFETIME
    return mean * (0.5 + chance)


# Connections a second that a GM is to take from all that come back; jitter is never quite even.
COMING_BACK: Final = 370.0
# The number of LCs has to change by so much to be sent anew.
_STEP: Final = 1.25


def pace(lcs: int) -> float:
    """Seconds; 0 for so few that LC's own jitter is enough."""
    seconds = lcs / COMING_BACK
    return seconds if seconds > FIRST else 0.0


def is_news(sent: float, now: float) -> bool:
    """Whether LCs that have the one should get the other."""
    low, high = sorted((sent, now))
    return high > low * _STEP


# Seconds that a stream waits: an event takes milliseconds, and another GM may have it already.
PATIENCE: Final = 5.0
# Seconds until the history is taken to be rewound: a relay that thinks its link up learns of a
# broken watch sooner (the API server's bookmarks come each minute).
REWOUND_AFTER: Final = 90.0
# Seconds after which a node's next try has nothing to do with its last.
FORGET_AFTER: Final = 60.0


class RestoreVerdict(Enum):
    """What to do with an LC that knows more."""

    WAIT = auto()
    ANOTHER_GM = auto()
    REWOUND = auto()


class RestoreDetection:
    """Of all nodes that know more than this GM."""

    def __init__(self) -> None:
        # When the node was first and last seen to know more.
        self._ahead: dict[str, tuple[float, float]] = {}

    def forget(self) -> None:
        """The link was down: that is why LCs know more."""
        self._ahead.clear()

    def reached(self, node: str) -> None:
        """GM knows what the node does."""
        self._ahead.pop(node, None)

    def judge(self, node: str, *, waiting_since: float, now: float) -> RestoreVerdict:
        """`waiting_since`: the present stream's beginning."""
        for other, (_, last) in tuple(self._ahead.items()):
            if now - last > FORGET_AFTER:
                del self._ahead[other]
        first, _ = self._ahead.get(node, (now, now))
        self._ahead[node] = (first, now)
        if now - first >= REWOUND_AFTER:
            return RestoreVerdict.REWOUND
        return RestoreVerdict.ANOTHER_GM if now - waiting_since >= PATIENCE else RestoreVerdict.WAIT
