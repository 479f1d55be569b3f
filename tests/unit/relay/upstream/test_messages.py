"""Which headers are passed on: RFC 9110, 7.6.1."""

import pytest
from multidict import CIMultiDict

from relay_sidecar.upstream.messages import asks_for_upgrade, drop_websocket_token, end_to_end

TOKEN = "base64url.bearer.authorization.k8s.io.c2VjcmV0"


def test_headers_between_neighbours_are_not_passed_on() -> None:
    headers = CIMultiDict(
        [
            ("Accept", "a/b"),
            ("CONNECTION", "close, X-Hop"),
            ("Connection", "x-other"),
            ("x-hop", "1"),
            ("X-Other", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authorization", "x"),
            ("TE", "trailers"),
            ("Trailer", "X-Sum"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Warning", "one"),
            ("warning", "two"),
        ]
    )
    assert list(end_to_end(headers).items()) == [
        ("Accept", "a/b"),
        ("Warning", "one"),
        ("warning", "two"),
    ]


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
def test_an_upgrade_is_asked_for_with_both_headers(
    headers: list[tuple[str, str]], asked: bool
) -> None:
    assert asks_for_upgrade(CIMultiDict(headers)) is asked


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
