"""What a request that asks for another protocol says: which one, and, for a WebSocket, who asks.

Knows no connection. The rules are those of RFC 9110 (7.8), RFC 6455 (4.2.1) and of kube-apiserver:
k8s.io/streaming v0.37, pkg/httpstream/wsstream, and k8s.io/apiserver v0.37,
pkg/authentication/request/websocket: a browser, which can set no header of a WebSocket, hides its
token among the protocols that it offers.
"""

import base64
import binascii
from typing import Final

from multidict import CIMultiDict, MultiMapping

from edge_sidecars.apimachinery.status import Refused, bad_request, unauthorized

# Of RFC 9110, 7.8 and RFC 7540, 3.2: HTTP itself, another version of it or over TLS.
VERSIONS_OF_HTTP: Final = ("h2", "http/", "tls/")
TOKEN_PROTOCOL: Final = "base64url.bearer.authorization.k8s.io."
PROTOCOLS: Final = "Sec-WebSocket-Protocol"
# RFC 6455, 4.1: the only version; 16 bytes, in base64.
VERSION: Final = "13"
KEY_LENGTH: Final = 16


def connection_options(headers: MultiMapping[str]) -> frozenset[str]:
    """What the header Connection names, in lower case."""
    lines = headers.getall("Connection", [])
    return frozenset(option.strip().lower() for line in lines for option in line.split(","))


def asks_for_upgrade(headers: MultiMapping[str]) -> bool:
    """Whether the request needs another protocol; one that HTTP itself could go on in is an offer
    that a server need not take: Java's HttpClient makes it with each request."""
    if "upgrade" not in connection_options(headers):
        return False
    wanted = {
        protocol.strip().lower()
        for line in headers.getall("Upgrade", [])
        for protocol in line.split(",")
    }
    return any(it and not it.startswith(VERSIONS_OF_HTTP) for it in wanted)


def asks_for_websocket(headers: MultiMapping[str]) -> bool:
    """As kube-apiserver sees it: of a choice of protocols, a WebSocket is none."""
    is_websocket = headers.get("Upgrade", "").strip().lower() == "websocket"
    return is_websocket and "upgrade" in connection_options(headers)


def names_itself(headers: MultiMapping[str]) -> bool:
    """Whether the Origin of a WebSocket is the server that is asked, and no page: that of clients
    that are no browser (the package websocket-client, and so the Python client's exec; fabric8)."""
    host = headers.get("Host", "")
    origins = headers.getall("Origin", [])
    return (
        len(origins) == 1
        and origins[0] in (f"http://{host}", f"https://{host}")
        and headers.get("Upgrade", "").lower() == "websocket"
    )


def websocket_token(headers: MultiMapping[str]) -> str | None:
    """The token of a WebSocket's protocols, None where there is none. Raises `Refused` (401)."""
    if not asks_for_websocket(headers):
        return None
    offered = _offered(headers)
    tokens = [each for each in offered if each.startswith(TOKEN_PROTOCOL)]
    if not tokens:
        return None
    # One protocol beside it has to be there, which the answer can name.
    if len(tokens) > 1 or len(offered) == 1:
        raise Refused(unauthorized())
    return _decoded(tokens[0].removeprefix(TOKEN_PROTOCOL))


def websocket_protocol(headers: MultiMapping[str]) -> str:
    """What the answer to a watch names, "" where nothing was offered: whatever it is, a watch is
    the same in it. Raises `Refused` for what is no handshake."""
    if headers.get("Sec-WebSocket-Version", "").strip() != VERSION:
        raise Refused(bad_request("the WebSocket's version is not 13"))
    try:
        key = base64.b64decode(headers.get("Sec-WebSocket-Key", ""), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_LENGTH:
        raise Refused(bad_request("Sec-WebSocket-Key is not 16 bytes in base64"))
    named = [each for each in _offered(headers) if not each.startswith(TOKEN_PROTOCOL)]
    if len(named) > 1:
        raise Refused(bad_request("a watch over a WebSocket offers one protocol at most"))
    return named[0] if named else ""


def drop_websocket_token(headers: CIMultiDict[str]) -> None:
    """The token that a browser hides among the protocols: a credential of the caller's."""
    lines = headers.getall(PROTOCOLS, [])
    if not any(TOKEN_PROTOCOL in line for line in lines):
        return
    del headers[PROTOCOLS]
    for line in lines:
        protocols = [each.strip() for each in line.split(",")]
        kept = [each for each in protocols if not each.startswith(TOKEN_PROTOCOL)]
        if kept:
            headers.add(PROTOCOLS, ", ".join(kept))


def _offered(headers: MultiMapping[str]) -> list[str]:
    lines = headers.getall(PROTOCOLS, [])
    return [each.strip() for line in lines for each in line.split(",") if each.strip()]


def _decoded(encoded: str) -> str | None:
    """Raises `Refused` for what is no token: it goes on in a header."""
    try:
        if "=" in encoded:
            raise ValueError("padding")
        padded = encoded + "=" * (-len(encoded) % 4)
        token = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except ValueError as error:  # binascii.Error and UnicodeDecodeError are some
        raise Refused(unauthorized()) from error
    if not token.isprintable() or " " in token:
        raise Refused(unauthorized())
    return token or None
