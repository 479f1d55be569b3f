"""The link's last verdict, persisted: a relay that starts again in an outage, as after the loss of
the node's power, learns of it by one failure instead of two.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob

# The journal's.
SPACE: Final = "link"
_DOWN: Final = b"down"


class PersistedVerdict:
    """`saved`: what an earlier life left in `SPACE`; `was_down`: as it ended."""

    def __init__(self, journal: Journal, saved: Mapping[bytes, bytes]) -> None:
        self.was_down = self._is_down = _DOWN in saved
        self._journal = journal
        journal.rewrite_from(self._state)

    def link(self, is_up: bool) -> None:
        """The link's verdict is this now."""
        if is_up == self._is_down:
            self._is_down = not is_up
            self._journal.send(Blob(SPACE, _DOWN, b"" if self._is_down else None))

    def _state(self) -> Iterator[Blob]:
        if self._is_down:
            yield Blob(SPACE, _DOWN, b"")
