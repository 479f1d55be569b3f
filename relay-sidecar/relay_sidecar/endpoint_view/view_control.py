"""What moves the stream of the view: the stream of upstream that it follows. It is as current."""

from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.streams.stream import Mover, Stream
from relay_sidecar.streams.streams import Streams


class FollowedStream(Mover):
    """`scope`: of the one stream in `sources` that is followed."""

    def __init__(self, sources: Streams, scope: ListScope) -> None:
        self._sources = sources
        self._scope = scope

    def is_open(self) -> bool:
        followed = self._followed
        return followed is not None and followed.is_open()

    def is_live(self) -> bool:
        followed = self._followed
        return followed is not None and followed.is_live()

    def confirmed_at(self) -> float:
        followed = self._followed
        return 0.0 if followed is None else followed.as_of

    @property
    def source(self) -> str:
        followed = self._followed
        return "" if followed is None else followed.source

    def confirm(self) -> None:
        followed = self._followed
        if followed is not None:
            followed.confirm()

    @property
    def _followed(self) -> Stream | None:
        return self._sources.exactly(self._scope)
