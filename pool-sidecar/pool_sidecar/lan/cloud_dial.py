"""The connection that is lent: to the API server, by the way on which this node reaches it.

Guarantee: bytes that come from the API server are the first ones behind a proxy's answer; what the
proxy says of itself is read to its end, and goes to no borrower. The API server's kernel is let
send little ahead, from the first window on: it is the link that is bounded, and not only what a
borrower gets of it.
"""

import asyncio
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from edge_sidecars.kubeapi.credentials import client_context
from edge_sidecars.runtime.cli.proxies import HttpProxy
from pool_sidecar.lan.http_head import MAX_HEAD, BadHead, read_head
from pool_sidecar.lan.tunnel import Stream

_PORTS: Final = {"http": 80, "https": 443}
# Bytes: a few segments, and a megabyte a second over a round trip of 250 ms.
LEAST: Final = 32 * 1024
MOST: Final = 256 * 1024


class NoTunnel(OSError):
    """The proxy made none."""


def receive_buffer(rate: int) -> int:
    """Bytes that the kernel takes ahead on one connection of a borrower that gets so many a second:
    those of half a second, so that a link with long round trips is used."""
    return min(max(rate // 2, LEAST), MOST)


async def dial(server: tuple[str, int], proxy: HttpProxy | None, *, receive: int = LEAST) -> Stream:
    """`receive`: bytes that the kernel takes ahead. Raises OSError."""
    if proxy is None:
        return await _connected(*server, receive=receive)
    parts = urlsplit(proxy.url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    tls = client_context(None) if parts.scheme == "https" else None
    stream = await _connected(host, port, receive=receive, tls=tls)
    try:
        await _connect(stream, server, proxy)
    except BaseException:
        stream.reset()
        raise
    return stream


async def _connected(
    host: str, port: int, *, receive: int, tls: ssl.SSLContext | None = None
) -> Stream:
    """Raises OSError."""
    loop = asyncio.get_running_loop()
    failure: OSError = NoTunnel(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            # Before the connection is made: the window is announced with it (tcp(7)).
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
            await loop.sock_connect(sock, address)
            name = None if tls is None else host
            opened = await asyncio.open_connection(
                sock=sock, ssl=tls, server_hostname=name, limit=MAX_HEAD
            )
            return Stream(*opened)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
    raise failure


async def _connect(stream: Stream, server: tuple[str, int], proxy: HttpProxy) -> None:
    """Raises OSError."""
    host = f"[{server[0]}]" if ":" in server[0] else server[0]
    authority = f"{host}:{server[1]}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in proxy.headers.items()]
    stream.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    try:
        head = await read_head(stream.reader)
    except BadHead as error:
        raise NoTunnel(f"the proxy {proxy.url} answers no HTTP: {error}") from error
    if head is None:
        raise NoTunnel(f"the proxy {proxy.url} closed the connection")
    # RFC 9110, 9.3.6: any 2xx is a tunnel.
    if not head.first[1].startswith("2"):
        raise NoTunnel(f"the proxy {proxy.url} refuses {authority}: {' '.join(head.first[1:])}")
