"""What the web layer asks before it answers, and what it learns about the caller.

Verifies no token: whose one is, and until when it is good, only upstream can say. A token is a
secret: a `Caller` does not print it, and no message holds one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.runtime.formats.bearer import bearer_token
from edge_sidecars.runtime.web.aiohttp_web import BaseRequest, RequestKey
from relay_sidecar.core.upgrade_request import websocket_token


@dataclass(frozen=True, slots=True)
class Caller:
    """`token` is "" where everybody acts with the relay's rights; `is_node`: it has shown the
    certificate of the node for which the relay acts."""

    token: str = field(default="", repr=False)
    is_node: bool = False


# Who sent a request, once it has been admitted.
CALLER = RequestKey("caller", Caller)


class Access(Protocol):
    async def admit(self, request: BaseRequest) -> Caller:
        """Raises `Refused` (401, 403)."""
        ...

    async def may(
        self, caller: Caller, info: RequestInfo, *, label_selector: str, field_selector: str
    ) -> float:
        """Until when (monotonic seconds) the caller may read this; then it is to be asked again,
        while what was begun goes on. Raises `Refused` (401, 403, 503)."""
        ...

    def is_of_node(self, caller: Caller) -> bool:
        """Whether this is the node itself, or a component that it needs to have pods; of a caller
        that may read something."""
        ...

    def link(self, is_up: bool) -> None:
        """Upstream answers again, or has just ceased to."""

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        """What replaces the Authorization that the caller sent: without one, the
        relay's own credentials."""
        ...


def token_of(request: BaseRequest) -> str | None:
    """The token by which the request says who asks, None where there is none: of its Authorization,
    or of a WebSocket's protocols. Raises `Refused` (401)."""
    return bearer_token(request.headers.get(hdrs.AUTHORIZATION)) or websocket_token(request.headers)
