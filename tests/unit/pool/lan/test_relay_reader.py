"""The head of a read that passes two members."""

import asyncio

import pytest

from pool_sidecar.lan.http_head import Head, read_head
from pool_sidecar.lan.relay_reader import RelayRead


def head(text: str) -> Head:
    async def parsed() -> Head:
        reader = asyncio.StreamReader()
        reader.feed_data(text.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        found = await read_head(reader)
        assert found is not None
        return found

    return asyncio.run(parsed())


def test_a_read_passes_on_its_path_and_what_the_answer_depends_on() -> None:
    asked = RelayRead.of(
        head(
            "GET /relay/n3/api/v1/services?watch=true HTTP/1.1\nHost: 127.0.0.1\n"
            "Authorization: Bearer of-this-node\nAccept: application/json\nAccept-Encoding: gzip\n"
            "Cookie: a=b"
        )
    )
    assert asked is not None
    named = asked.to_peer()
    assert named is not None
    name, read = named
    assert name == "n3"
    assert read.encode(host="relay") == (
        b"GET /api/v1/services?watch=true HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n"
        b"accept: application/json\r\naccept-encoding: gzip\r\n\r\n"
    )
    assert b"Authorization: Bearer of-n3\r\n" in read.encode(host="127.0.0.1", token="of-n3")


@pytest.mark.parametrize(
    "text",
    [
        "POST /relay/n3/api/v1/services HTTP/1.1",
        "DELETE /relay/n3/api/v1/services HTTP/1.1",
        "GET relay/n3/api HTTP/1.1",
        "GET http://n3/api HTTP/1.1",
        "GET /relay/n3/api HTTP/1.1\nContent-Length: 5",
        "GET /relay/n3/api HTTP/1.1\nTransfer-Encoding: chunked",
        "GET /relay/n3/api HTTP/1.1\nUpgrade: websocket",
    ],
)
def test_nothing_else_is_a_read(text: str) -> None:
    assert RelayRead.of(head(text)) is None


@pytest.mark.parametrize("path", ["/relay/", "/relay/n3", "/relay//api", "/other/n3/api", "/"])
def test_a_read_of_this_node_names_a_peer(path: str) -> None:
    asked = RelayRead.of(head(f"GET {path} HTTP/1.1"))
    assert asked is not None
    assert asked.to_peer() is None
