"""The writes of one candidate whose outcome is unknown.

A write is unanswered for good when its request timed out, and may have been applied all the same;
its stamp in the record is the proof (hazards H8, H10). Pure.
"""

from elector_sidecar.core.commands import Purpose, WriteLease


class OpenWrites:
    """Writes whose fate is open: under way, or unanswered for good but possibly applied."""

    def __init__(self) -> None:
        self._flying: dict[int, WriteLease] = {}
        self._doubtful: dict[str, WriteLease] = {}

    def add(self, write: WriteLease) -> None:
        self._flying[write.id] = write

    def flying(self, base_version: int) -> list[WriteLease]:
        """Those under way that could still apply to this version of the record."""
        return [write for write in self._flying.values() if write.base_version == base_version]

    def may_apply(self, version: int) -> bool:
        """Whether one that is under way, or was given up, could still be applied."""
        return bool(self._flying) or any(
            write.base_version == version for write in self._doubtful.values()
        )

    def landed(self, write_id: int) -> WriteLease | None:
        """The answer came: the write is settled."""
        return self._flying.pop(write_id, None)

    def lost(self, write_id: int, *, forget_before: float) -> None:
        """No answer: it may have been applied, and its stamp would show that.

        Those sent before `forget_before` prove nothing any more; an outage may last for days.
        """
        write = self._flying.pop(write_id, None)
        if write is not None and write.purpose is Purpose.ACQUIRE_OR_RENEW:
            self._doubtful[write.stamp] = write
        self._doubtful = {
            stamp: doubtful
            for stamp, doubtful in self._doubtful.items()
            if doubtful.sent_at >= forget_before
        }

    def stamped(self, stamp: str | None) -> WriteLease | None:
        """The open write that bears this stamp, if any."""
        if stamp is None:
            return None
        for write in self._flying.values():
            if write.stamp == stamp and write.purpose is Purpose.ACQUIRE_OR_RENEW:
                return write
        return self._doubtful.get(stamp)

    def forget_doubtful(self) -> None:
        """A newer version of the record was written since: none of them can apply any more."""
        self._doubtful.clear()
