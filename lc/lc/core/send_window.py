"""Which reports are to be sent on one connection.

Knows no sockets and no clock. Guarantees: the reports of one object leave in the order of their
seq, each once, and once more where GM stayed silent for long (it may have had no room, or have
lost the lead in between); nothing is dropped here: only the store forgets reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from edge_sidecars.sedna_api.core.report import Report

# Seconds without an answer for an object after which its reports are sent again. A GM that works
# answers within one write to the API server and its time-out.
RESEND_AFTER: Final = 30.0


class SendWindow:
    """One connection's."""

    def __init__(self) -> None:
        # By uid: the highest seq that was sent, and when something last happened.
        self._sent: dict[str, int] = {}
        self._active_at: dict[str, float] = {}

    def due(self, pending: Iterable[Report], now: float) -> tuple[Report, ...]:
        """What is to be sent now, of everything that the store keeps, in order per object."""
        reports = tuple(pending)
        for report in reports:
            is_sent = report.seq <= self._sent.get(report.uid, 0)
            if is_sent and now - self._active_at[report.uid] >= RESEND_AFTER:
                del self._sent[report.uid]
        return tuple(one for one in reports if one.seq > self._sent.get(one.uid, 0))

    def sent(self, report: Report, now: float) -> None:
        self._sent[report.uid] = report.seq
        self._active_at[report.uid] = now

    def answered(self, uid: str, now: float) -> None:
        """GM said something about a report of this object."""
        self._active_at[uid] = now

    def refused(self, uid: str) -> None:
        """What followed in flight was not taken, because the one before it is missing there."""
        self._sent.pop(uid, None)
