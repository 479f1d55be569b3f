"""Streams that nothing moves but the test, and that are live once they have begun."""

from collections.abc import Callable
from dataclasses import dataclass

from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Mover, Stream
from relay_sidecar.streams.streams import Limits, Streams
from relay_sidecar.telemetry.metrics import RelayCounters


class Still(Mover):
    source = ""

    def is_open(self) -> bool:
        return True

    def is_live(self) -> bool:
        return True

    def confirmed_at(self) -> float:
        return 0.0


@dataclass(frozen=True)
class FixedLink:
    is_up: bool


def still_streams(
    limits: Limits,
    *,
    is_up: bool = True,
    journal: Journal | None = None,
    mover: Callable[[Stream], Mover] = lambda _: Still(),
) -> Streams:
    return Streams(
        lambda stream, owner, *, is_up: mover(stream),
        MinResourceVersion(),
        limits,
        RelayCounters(),
        journal or Journal(None),
        link=FixedLink(is_up),
    )
