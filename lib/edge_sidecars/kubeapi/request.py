"""A request to the API server, as it goes over the wire; knows no connection."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from yarl import URL

# RFC 9110, 9.2.1: what a server may be asked twice.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Bytes of a body that are handed over at a time.
PIECE = 64 * 1024

Body = bytes | AsyncIterable[bytes] | None
Headers = Iterable[tuple[str, str]]
# Whose credentials the request carries: ours; those in its headers; none, and no header of ours is
# added either (a token is many times as long as a short request).
Identity = Literal["own", "caller", "none"]
# One that earlier requests used, where one is fit for use; one of its own; one of its own that
# changes its protocol (`Response.take_over`).
Connection = Literal["pooled", "fresh", "upgrade"]


@dataclass(frozen=True)
class Request:
    """`target`: path and query as they go over the wire, or the * of an OPTIONS. `headers`: the
    end-to-end ones; without Content-Length a streamed body is sent in chunks.

    Times in seconds. `header_timeout` spans all up to the response's head, `connect_timeout` of
    them at most are for having a connection. `max_idle`: a pooled connection was used so recently;
    None: as the method allows. `is_decoded`: the response's body is without its Content-Encoding.
    """

    method: str
    target: str
    _: KW_ONLY
    header_timeout: float
    connect_timeout: float | None = None
    headers: Headers = ()
    body: Body = None
    identity: Identity = "own"
    connection: Connection = "pooled"
    max_idle: float | None = None
    is_decoded: bool = False

    @property
    def is_streamed(self) -> bool:
        """Either side may take as long as it likes."""
        is_whole = self.body is None or isinstance(self.body, bytes)
        return self.connection == "upgrade" or not is_whole

    def url(self, server: str) -> URL:
        """`target` is not parsed as a part of a URL: a # in it is none of ours."""
        base = URL(server, encoded=True)
        path, _, query = self.target.partition("?")
        return URL.build(
            scheme=base.scheme,
            authority=base.raw_authority,
            path=self.target if self.target == "*" else base.raw_path.rstrip("/") + path,
            query_string=query,
            encoded=True,
        )


async def paced(
    body: bytes | AsyncIterable[bytes], *, begin: Callable[[], None], end: Callable[[], None]
) -> AsyncIterator[bytes]:
    """The body in pieces; calls `begin` when the first one is taken, `end` after the last one."""
    begin()
    if isinstance(body, bytes):
        for start in range(0, len(body), PIECE):
            yield body[start : start + PIECE]
    else:
        async for piece in body:
            yield piece
    end()
