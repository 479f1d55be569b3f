"""How current the stream of the view is: as current as the stream of upstream that it follows."""

from edge_sidecars.apimachinery.objects import Page
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams


class ViewControl:
    """`scope`: of the one stream in `sources` that is followed. What follows it moves the view;
    nothing here does."""

    def __init__(self, sources: Streams, scope: ListScope) -> None:
        self._sources = sources
        self._scope = scope

    @property
    def is_up(self) -> bool:
        return self._sources.is_up

    def start(self, stream: Stream) -> None:
        """It runs."""

    def stop(self, stream: Stream) -> None:
        """It ends with what it follows."""

    def runs(self, stream: Stream) -> bool:
        return True

    def is_open(self, stream: Stream) -> bool:
        source = self._source
        return source is not None and self._sources.is_open(source)

    def is_live(self, stream: Stream) -> bool:
        source = self._source
        return source is not None and self._sources.is_live(source)

    def confirmed_at(self, stream: Stream) -> float:
        source = self._source
        return 0.0 if source is None else self._sources.reflectors.confirmed_at(source)

    def source(self, stream: Stream) -> str:
        """Of what is followed."""
        source = self._source
        return "" if source is None else self._sources.reflectors.source(source)

    def confirm(self, stream: Stream) -> None:
        source = self._source
        if source is not None:
            self._sources.reflectors.confirm(source)

    def compare(self, stream: Stream, listed: ListEvidence) -> None:
        """No list comes from elsewhere."""

    async def adopt(self, stream: Stream, page: Page, *, confirmed_at: float) -> bool:
        return False

    def relist(self, stream: Stream, *, is_paced: bool = False) -> None:
        """It is listed again with what it follows."""

    def stands_at(self, resource: ResourceName, version: int) -> None:
        """Of upstream, what is followed hears."""

    def link(self, is_up: bool) -> None:
        """What is followed hears of it."""

    def reopen(self) -> None:
        """What is followed does."""

    def refresh(self) -> None:
        """What is followed does."""

    def doubt(self) -> None:
        """What is followed does."""

    @property
    def _source(self) -> Stream | None:
        return self._sources.exactly(self._scope)
