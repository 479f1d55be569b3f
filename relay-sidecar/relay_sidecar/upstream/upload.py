"""The body of a client's request on its way upstream.

Guarantees: a client that waits to be asked for it (Expect: 100-continue) is asked once somebody
takes it; what is not whole never ends as if it were; why it failed is known afterwards.
"""

from aiohttp import hdrs
from aiohttp.web_protocol import RequestPayloadError

from edge_sidecars.apimachinery.status import Refused, Status, bad_request
from edge_sidecars.runtime.web import aiohttp_web as web

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Upload:
    """An iterator; `failure` is what the client is to be told, or that it has gone."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._is_expected = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        self.failure: Refused | ConnectionError | None = None

    def __aiter__(self) -> "Upload":
        return self

    async def __anext__(self) -> bytes:
        try:
            if self._is_expected:
                self._is_expected = False
                await self._ask()
            chunk = await self._request.content.readany()
        except RequestPayloadError as error:
            self.failure = Refused(bad_request("the body is not what its headers say"))
            raise self.failure from error
        except ConnectionError as error:
            self.failure = error
            raise
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def is_within(self, limit: int) -> bool:
        """Whether it says that it is no longer than `limit` bytes."""
        length = self._request.content_length
        return length is not None and length <= limit

    async def whole(self, *, limit: int) -> bytes:
        """Raises `Refused` where it is longer than `limit` bytes or no body."""
        if (self._request.content_length or 0) > limit:
            raise Refused(_too_long(limit))
        found = bytearray()
        async for chunk in self:
            found += chunk
            if len(found) > limit:
                raise Refused(_too_long(limit))
        return bytes(found)

    async def _ask(self) -> None:
        writer = self._request.writer
        await writer.write(CONTINUE)
        # It is no part of the answer, of which nothing was sent yet.
        writer.output_size = 0


def upload(request: web.BaseRequest) -> Upload | None:
    """None where there is none."""
    return Upload(request) if request.can_read_body else None


def _too_long(limit: int) -> Status:
    """NewRequestEntityTooLargeError of apimachinery's pkg/api/errors."""
    return Status(
        code=413,
        reason="RequestEntityTooLarge",
        message=f"Request entity is too large: limit is {limit}",
    )
