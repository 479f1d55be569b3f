"""The API server as handlers of requests see it: what passes a client's request on."""

from collections.abc import Callable, Hashable
from typing import NoReturn, Protocol

from edge_sidecars.apimachinery.selection.shards import EVERYTHING, ShardSelector
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest
from relay_sidecar.upstream.streaming import StreamObserver


class Upstream(Protocol):
    """Upstream, as a request may reach it. Raises `kubeapi.Unreachable`."""

    @property
    def is_up(self) -> bool: ...

    @property
    def is_relayed(self) -> bool:
        """The API server is offline: upstream is another relay, which answers from its cache."""
        ...

    @property
    def cause(self) -> str:
        """Why the API server is not reached; "" while it is."""
        ...

    def question(self, asked: ClientRequest) -> Hashable:
        """Equal for reads that upstream cannot tell apart: of the same thing, in the same form, by
        the same caller."""
        ...

    async def fetch(self, asked: ClientRequest) -> BufferedResponse: ...

    async def stream(
        self, asked: ClientRequest, observer: StreamObserver
    ) -> web.StreamResponse | BufferedResponse:
        """As it comes, where `observer` says so of how it begins; else whole."""
        ...

    async def write(self, asked: ClientRequest) -> BufferedResponse:
        """Raises `Refused` with what is known of the outcome."""
        ...

    async def forward(
        self, request: web.BaseRequest, shards: ShardSelector = EVERYTHING
    ) -> web.StreamResponse:
        """`shards`: of a LIST or WATCH, to which the answer is reduced, whatever upstream knows of
        them. Raises `Refused` where it cannot be."""
        ...


class NoUpstream:
    """For who answers from its streams alone: whatever would be asked of upstream raises
    `refusal()`."""

    is_up = False
    is_relayed = False
    cause = ""

    def __init__(self, refusal: Callable[[], Exception]) -> None:
        self._refusal = refusal

    def question(self, asked: ClientRequest) -> Hashable:
        return asked

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    fetch = stream = write = forward = _refuse
