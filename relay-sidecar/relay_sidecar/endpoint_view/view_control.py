"""How current the stream of the view is: as current as the stream of upstream that it follows."""

from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.streams.reflector_control import NoReflectors
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams


class ViewControl(NoReflectors):
    """`scope`: of the one stream in `sources` that is followed. What follows it moves the view;
    nothing here does."""

    def __init__(self, sources: Streams, scope: ListScope) -> None:
        self._sources = sources
        self._scope = scope

    @property
    def is_up(self) -> bool:
        return self._sources.is_up

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

    @property
    def _source(self) -> Stream | None:
        return self._sources.exactly(self._scope)
