"""What moves streams, as their owner sees it: started, stopped, asked how far each has come."""

from typing import Protocol

from edge_sidecars.apimachinery.resources import ResourceName
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.streams.stream import Stream


class ReflectorControl(Protocol):
    def start(self, stream: Stream) -> None: ...
    def stop(self, stream: Stream) -> None: ...
    def runs(self, stream: Stream) -> bool: ...
    def is_open(self, stream: Stream) -> bool: ...
    def is_live(self, stream: Stream) -> bool: ...
    def confirmed_at(self, stream: Stream) -> float: ...
    def source(self, stream: Stream) -> str:
        """From where it comes: "cloud", or the name of a hub; "" where it does not run."""
        ...

    def confirm(self, stream: Stream) -> None: ...
    def compare(self, stream: Stream, listed: ListEvidence) -> None: ...
    def relist(self, stream: Stream, *, is_paced: bool = False) -> None: ...
    def stands_at(self, resource: ResourceName, version: int) -> None: ...

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        ...

    def reopen(self) -> None:
        """There is another way to upstream: open watches go on there."""
        ...

    def refresh(self) -> None:
        """There may be another hub of the pool, or none any more."""
        ...

    def doubt(self) -> None:
        """The process stood still: what came meanwhile is unread."""
        ...

    @property
    def is_up(self) -> bool: ...


class NoReflectors:
    """Streams are moved by their owner, as those of the local origin are: none is ever behind."""

    @property
    def is_up(self) -> bool:
        return True

    def start(self, stream: Stream) -> None:
        """It runs."""

    def stop(self, stream: Stream) -> None:
        """It runs while its owner does."""

    def runs(self, stream: Stream) -> bool:
        return True

    def is_open(self, stream: Stream) -> bool:
        return self.is_up

    def is_live(self, stream: Stream) -> bool:
        return self.is_up

    def source(self, stream: Stream) -> str:
        return ""

    def confirmed_at(self, stream: Stream) -> float:
        return stream.confirmed_at

    def confirm(self, stream: Stream) -> None:
        """It is what it is."""

    def compare(self, stream: Stream, listed: ListEvidence) -> None:
        """No list comes from elsewhere."""

    def relist(self, stream: Stream, *, is_paced: bool = False) -> None:
        """There is nothing else."""

    def stands_at(self, resource: ResourceName, version: int) -> None:
        """It never goes back."""

    def link(self, is_up: bool) -> None:
        """There is no link."""

    def reopen(self) -> None:
        """There is no way but this one."""

    def refresh(self) -> None:
        """There is no pool."""

    def doubt(self) -> None:
        """Nothing comes from elsewhere."""
