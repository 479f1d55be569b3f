"""What becomes of an LC that knows more than this GM.

Mostly GM's watch is late by a moment: LC waits, then tries another GM. But a cluster that was
restored or made anew never comes to what LC knows: after a while in which the link was up and the
watch stood, the history is taken to be rewound. Knows no clock.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

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
