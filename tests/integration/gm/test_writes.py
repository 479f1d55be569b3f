"""What GM's writes look like on the wire, whatever reports and conditions brought into them."""

import asyncio
import json

import pytest

from edge_sidecars.kubeapi import ApiClient, Plain
from gm.controller.api_writes import api_writes
from tools.harness.pods.wire.raw_server import Connection, RawServer


@pytest.mark.parametrize("word", ["plain", "Größe ✓", "half \ud800 a pair"])
def test_a_write_carries_whatever_text_there_is(word: str) -> None:
    async def send(url: str) -> bytes:
        api = ApiClient(Plain(url), user_agent="gm/test")
        try:
            writes = api_writes(api, lambda _: True, timeout=5.0)
            return await writes.put("/x", {"status": {"word": word, "count": 3}}, owner="u")
        finally:
            await api.close()

    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"{}")

    with RawServer(serve) as server:
        assert asyncio.run(send(server.url)) == b"{}"
        [request] = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /x?fieldManager=sedna-gm ")
    assert json.loads(body) == {"status": {"word": word, "count": 3}}
