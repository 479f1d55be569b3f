"""Who may come in: by the loopback of this machine anybody, by the node's address with a token.

Guarantees: A browser's page cannot be made to speak for a worker (no name but an address or
localhost is believed to be this one, and nothing is taken that a page may have sent). A token is
compared in constant time and read again when its file changes. Without a usable token no client
comes in by the node's address, but for `/livez`.
"""

import os
from ipaddress import ip_address
from pathlib import Path

import msgspec

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.formats.bearer import authorizes
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Handler
from edge_sidecars.runtime.web.cross_site import JSON, refusal
from edge_sidecars.runtime.web.endpoints import READS

# Shorter ones are guessed.
MIN_TOKEN = 16
_OPEN_PATHS = ("/livez", "/readyz")


class LoopbackOnly:
    """Before a handler that everybody on this machine may ask."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if not _is_own_name(request.headers.get("Host", "")):
            return web.Response(status=421, text="ask by address, or as localhost\n")
        if request.method not in READS and (refused := refusal(request)) is not None:
            return sedna_answer(refused.status, refused.message)
        return await self._handler(request)


class TokenAuthentication:
    """Before the same handler, for clients with the token."""

    def __init__(self, handler: Handler, token: "TokenFile") -> None:
        self._handler = handler
        self._token = token

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        is_open = request.path in _OPEN_PATHS
        if not is_open and not authorizes(request.headers.get("Authorization"), self._token.get()):
            headers = {"WWW-Authenticate": "Bearer"}
            return web.Response(status=401, text="send the token\n", headers=headers)
        return await self._handler(request)


class TokenFile:
    def __init__(self, path: Path) -> None:
        """Raises `BadInput` where it has no usable token."""
        self._path = path
        self._seen = self._stamp()
        self._token = self._read()
        if not self._token:
            raise BadInput(
                f"--token-file {path} has no token that can be read, of at least {MIN_TOKEN} bytes"
            )

    def get(self) -> bytes:
        """b"" for none that is usable."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            self._token = self._read()
            if not self._token:
                logger.warning("no usable token", extra=fields(file=self._path))
        return self._token

    def _stamp(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return (0, 0, 0)
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    def _read(self) -> bytes:
        """b"" for none that is usable."""
        try:
            token = self._path.read_bytes().strip()
        except OSError:
            return b""
        return token if len(token) >= MIN_TOKEN else b""


def _is_own_name(host: str) -> bool:
    name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def sedna_answer(status: int, message: str) -> web.Response:
    """The shape of Sedna's answers."""
    body = msgspec.json.encode({"Status": status, "Message": message})
    return web.Response(status=status, body=body, headers={"Content-Type": JSON})
