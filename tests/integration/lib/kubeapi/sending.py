"""Requests to a server that a test scripts byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from edge_sidecars.kubeapi import ApiTransport, Credentials, Plain, Request, Unreachable
from edge_sidecars.kubeapi.messages import Identity
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.pods.wire.raw_server import Connection, RawServer

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WRITES = ["PUT", "POST", "DELETE", "PATCH"]
# Seconds for what the server did to reach the client's loop.
ARRIVAL = 0.3
MEBIBYTE = 1024 * 1024

T = TypeVar("T")
Run = Callable[[str | Credentials, Callable[[ApiTransport], Awaitable[T]]], T]


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def answer_all(connection: Connection) -> None:
    while connection.request():
        connection.answer(b"whole")


def be_silent(connection: Connection) -> None:
    connection.request()
    assert connection.sees_end(within=10), "the connection outlived its time-out"


async def until(is_so: Callable[[], bool], *, within: float = 10) -> None:
    """Returns as soon as it is so."""
    async with asyncio.timeout(within):
        while not is_so():  # noqa: ASYNC110 (it is so by another thread)
            await asyncio.sleep(0.01)


async def pieces(*content: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    for each in content:
        yield each
        await asyncio.sleep(pause)


async def ask(
    api: ApiTransport,
    method: str = "GET",
    target: str = "/x",
    *,
    timeout: float = 5,
    body: bytes | AsyncIterator[bytes] | None = None,
    headers: list[tuple[str, str]] | None = None,
    identity: Identity = "own",
) -> bytes:
    request = Request(
        method,
        target,
        header_timeout=timeout,
        headers=headers or [],
        body=body,
        identity=identity,
    )
    async with api.send(request) as answer:
        return await answer.read(limit=100 * MEBIBYTE)


async def failure(request: Awaitable[object]) -> type[Unreachable]:
    """Of what kind it is, exactly."""
    with pytest.raises(Unreachable) as raised:
        await request
    return type(raised.value)


class Tls(Plain):
    """Trusts whom the test says."""

    def __init__(self, server: str, ca_file: Path | None = None) -> None:
        super().__init__(server.replace("http:", "https:"))
        self.context = ssl.create_default_context(cafile=ca_file)

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext:
        return self.context


def tls_server(folder: Path, serve: Callable[[Connection], None]) -> RawServer:
    authority = Authority(folder, "ca")
    certificate = authority.issue_server("server", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return RawServer(serve, tls=context)
