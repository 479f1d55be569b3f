"""The connection that is lent: to the API server, by the way on which this node reaches it.

Guarantee: bytes that come from the API server are the first ones behind a proxy's answer; what the
proxy says of itself is read to its end, and goes to no borrower.
"""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from edge_sidecars.kubeapi.credentials import client_context
from edge_sidecars.runtime.cli.proxies import HttpProxy
from pool_sidecar.lan.http_head import BadHead, read_head
from pool_sidecar.lan.tunnel import Stream

_PORTS: Final = {"http": 80, "https": 443}


class NoTunnel(OSError):
    """The proxy made none."""


async def dial(server: tuple[str, int], proxy: HttpProxy | None) -> Stream:
    """Raises OSError."""
    if proxy is None:
        return Stream(*await asyncio.open_connection(*server))
    parts = urlsplit(proxy.url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    tls = client_context(None) if parts.scheme == "https" else None
    stream = Stream(*await asyncio.open_connection(host, port, ssl=tls))
    try:
        await _connect(stream, server, proxy)
    except BaseException:
        stream.reset()
        raise
    return stream


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
