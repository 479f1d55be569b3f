"""What a reflector stands between: where its stream comes from, and who owns it.

Knows none of those that do this.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, Protocol

from edge_sidecars.apimachinery.watch_events import Failure
from relay_sidecar.streams.stream import Stream

# HTTP 429; what a stream is refused with that the relay has no room for.
FULL: Final = Failure(429, "TooManyRequests", "--max-objects of the relay is reached")


class Source(Protocol):
    """Where streams come from. Both raise `ApiError` and `Unreachable`."""

    async def page(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        timeout: float,
        accept: str = "application/json",
        arrived: Callable[[bytearray], None] | None = None,
        aged: Callable[[float], None] | None = None,
    ) -> bytearray:
        """The whole body; `arrived` is told of it, as far as it has come, each time more has;
        `aged` of the seconds since upstream itself knew it to be so, where it says them."""
        ...

    def batches(
        self, path: str, params: Mapping[str, str], *, open_timeout: float
    ) -> AsyncGenerator[Sequence[bytes], None]:
        """Whole lines as they come; an empty batch once upstream has accepted."""
        ...


class Owner(Protocol):
    """Who decides what becomes of a stream that upstream refuses."""

    def refused(self, stream: Stream, failure: Failure) -> None: ...
    def has_room(self, more: int) -> bool: ...
    def went_back(self, stream: Stream, version: int) -> None:
        """Upstream stands at `version`, and this stream was beyond it: it is empty now, and about
        to be listed."""
        ...

    @property
    def answered_at(self) -> float:
        """Wall time of the latest sign of upstream."""
        ...
