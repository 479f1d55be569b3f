"""Which headers travel from one end to the other, and which are between two neighbours only.

Knows no meaning of the others. Source: RFC 9110, 7.6.1 and 7.8.
"""

from collections.abc import Mapping

from multidict import CIMultiDict, CIMultiDictProxy

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# A browser's way to send a token: k8s.io/apiserver, pkg/authentication/request/websocket.
_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
_PROTOCOLS = "Sec-WebSocket-Protocol"


def end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Those that are passed on, in their order, each as often as it came."""
    dropped = HOP_BY_HOP | connection_options(headers)
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped
    )


def asks_for_upgrade(headers: Mapping[str, str]) -> bool:
    return "upgrade" in connection_options(headers) and bool(_all(headers, "Upgrade"))


def connection_options(headers: Mapping[str, str]) -> frozenset[str]:
    """What the header Connection names, in lower case."""
    told = _all(headers, "Connection")
    return frozenset(option.strip().lower() for line in told for option in line.split(","))


def drop_websocket_token(headers: CIMultiDict[str]) -> None:
    """The token that a browser hides among the protocols: a credential of the caller's."""
    lines = headers.popall(_PROTOCOLS, [])
    for line in lines:
        protocols = [each.strip() for each in line.split(",")]
        kept = [each for each in protocols if not each.startswith(_TOKEN_PROTOCOL)]
        if kept:
            headers.add(_PROTOCOLS, ", ".join(kept))


def _all(headers: Mapping[str, str], name: str) -> list[str]:
    if isinstance(headers, CIMultiDict | CIMultiDictProxy):
        return headers.getall(name, [])
    return [value for key, value in headers.items() if key.lower() == name.lower()]
