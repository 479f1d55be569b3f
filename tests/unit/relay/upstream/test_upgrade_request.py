"""What a request for another protocol says: RFC 9110, 7.8, RFC 6455, and kube-apiserver's rules."""

import base64
from http import HTTPStatus

import pytest
from multidict import CIMultiDict

from edge_sidecars.apimachinery.status import Refused
from relay_sidecar.core.upgrade_request import (
    asks_for_upgrade,
    asks_for_websocket,
    drop_websocket_token,
    names_itself,
    websocket_protocol,
    websocket_token,
)

PREFIX = "base64url.bearer.authorization.k8s.io."
TOKEN = f"{PREFIX}c2VjcmV0"
KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
Lines = list[tuple[str, str]]
WEBSOCKET: Lines = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "WebSocket")]


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        ([("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")], True),
        ([("Connection", "keep-alive, upgrade"), ("upgrade", "websocket")], True),
        ([("Connection", "keep-alive"), ("Connection", "Upgrade"), ("Upgrade", "x")], True),
        ([("Connection", "Upgrade")], False),
        # Java's HttpClient, with each request.
        (
            [
                ("Connection", "Upgrade, HTTP2-Settings"),
                ("Upgrade", "h2c"),
                ("HTTP2-Settings", "AAEAAEAAAAIAAAAB"),
            ],
            False,
        ),
        ([("Connection", "Upgrade"), ("Upgrade", "TLS/1.0, HTTP/1.1")], False),
        ([("Connection", "Upgrade"), ("Upgrade", "h2c, websocket")], True),
        ([("Upgrade", "websocket")], False),
        ([("Connection", "upgraded"), ("Upgrade", "websocket")], False),
        ([], False),
    ],
)
def test_an_upgrade_is_asked_for_with_both_headers(headers: Lines, asked: bool) -> None:
    assert asks_for_upgrade(CIMultiDict(headers)) is asked


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        (WEBSOCKET, True),
        ([("connection", "upgrade"), ("upgrade", " websocket ")], True),
        ([("Connection", "Upgrade"), ("Upgrade", "h2c, websocket")], False),
        ([("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")], False),
        ([("Upgrade", "websocket")], False),
        ([("Connection", "Upgrade")], False),
        ([], False),
    ],
)
def test_a_websocket_is_asked_for_by_its_name_alone(headers: Lines, asked: bool) -> None:
    assert asks_for_websocket(CIMultiDict(headers)) is asked


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ([f"{TOKEN}, v4.channel.k8s.io"], ["v4.channel.k8s.io"]),
        ([TOKEN, "v5.channel.k8s.io, v4.channel.k8s.io"], ["v5.channel.k8s.io, v4.channel.k8s.io"]),
        ([f"v5.channel.k8s.io,{TOKEN}"], ["v5.channel.k8s.io"]),
        ([TOKEN], []),
        ([], []),
    ],
)
def test_a_token_among_the_protocols_of_a_websocket_is_dropped(
    given: list[str], left: list[str]
) -> None:
    headers = CIMultiDict(("Sec-WebSocket-Protocol", each) for each in given)
    drop_websocket_token(headers)
    assert headers.getall("Sec-WebSocket-Protocol", []) == left


def offering(*lines: str, more: Lines | None = None) -> CIMultiDict[str]:
    offered = [("Sec-WebSocket-Protocol", each) for each in lines]
    handshake = [("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", KEY)]
    return CIMultiDict([*WEBSOCKET, *offered, *(handshake if more is None else more)])


@pytest.mark.parametrize(
    ("lines", "token"),
    [
        ([f"{TOKEN}, x"], "secret"),
        ([f"x,{TOKEN}"], "secret"),
        ([TOKEN, "x"], "secret"),
        (["x, y"], None),
        ([], None),
        ([f"{PREFIX}, x"], None),
    ],
)
def test_a_token_may_be_one_of_the_protocols(lines: list[str], token: str | None) -> None:
    headers = offering(*lines)
    assert websocket_token(headers) == token
    del headers["Upgrade"]
    assert websocket_token(headers) is None, "of a WebSocket alone"


def hidden(token: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(token).decode().rstrip("=")


@pytest.mark.parametrize(
    "lines",
    [
        [TOKEN],
        [f"{TOKEN}, {TOKEN}, x"],
        [f"{PREFIX}c2VjcmV0==, x"],
        [f"{PREFIX}c2VjcmV0x, x"],
        [f"{PREFIX}c2Vj+mV0, x"],
        [f"{PREFIX}!, x"],
        [f"{hidden(b'a b')}, x"],
        [f"{hidden(bytes([97, 13, 10, 98]))}, x"],
        [f"{hidden(bytes([255, 254]))}, x"],
        [f"{hidden('é'.encode())}, x"],
    ],
)
def test_what_is_no_token_is_unauthorized(lines: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        websocket_token(offering(*lines))
    assert refused.value.status.code == HTTPStatus.UNAUTHORIZED
    assert "c2Vj" not in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "named"),
    [([], ""), (["x"], "x"), ([f"{TOKEN}, x"], "x"), ([TOKEN], ""), ([f"x,, {TOKEN}"], "x")],
)
def test_the_answer_names_the_one_protocol_that_is_no_token(lines: list[str], named: str) -> None:
    assert websocket_protocol(offering(*lines)) == named


@pytest.mark.parametrize(
    "more",
    [
        [],
        [("Sec-WebSocket-Version", "13")],
        [("Sec-WebSocket-Version", "8"), ("Sec-WebSocket-Key", KEY)],
        [("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "AAAA")],
        [("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "é")],
        [
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", KEY),
            ("Sec-WebSocket-Protocol", "x, y"),
        ],
    ],
)
def test_what_is_no_handshake_is_a_bad_request(more: Lines) -> None:
    with pytest.raises(Refused) as refused:
        websocket_protocol(offering(more=more))
    assert refused.value.status.code == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("headers", "is_itself"),
    [
        ([("Host", "r:1"), ("Origin", "http://r:1"), *WEBSOCKET], True),
        ([("Host", "r:1"), ("Origin", "https://r:1"), *WEBSOCKET], True),
        ([("Host", "r:1"), ("Origin", "http://r:2"), *WEBSOCKET], False),
        ([("Host", "r:1"), ("Origin", "http://r:1")], False),
        ([("Host", "r:1"), ("Origin", "http://r:1"), ("Origin", "http://e"), *WEBSOCKET], False),
        ([("Host", "r:1"), ("Origin", "null"), *WEBSOCKET], False),
        ([("Host", "r:1"), *WEBSOCKET], False),
    ],
)
def test_a_websockets_origin_may_be_the_server_itself(headers: Lines, is_itself: bool) -> None:
    assert names_itself(CIMultiDict(headers)) is is_itself
