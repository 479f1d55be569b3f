"""R4: what answers to lists, watches and requests for documents say of the link."""

import asyncio
from contextlib import suppress

import pytest

from edge_sidecars.kubeapi import ApiError, ApiTransport, Plain
from relay_sidecar.core.link import LinkEvidence
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.documents.upkeep import DocumentSource
from relay_sidecar.upstream.reflector.source import UpstreamSource
from tools.harness.pods.wire.raw_server import Connection, RawServer

TIMEOUT = 5.0


def met_with(status: str, headers: str = "") -> list[LinkEvidence]:
    """What the link hears of a list, a watch and a document that are answered like this."""
    met: list[LinkEvidence] = []

    def serve(connection: Connection) -> None:
        while connection.request():
            connection.answer(b"{}", status=status, headers=headers)

    async def ask() -> None:
        transport = ApiTransport(Plain(server.url), user_agent="relay-sidecar/test")
        source = UpstreamSource(
            transport,
            request_timeout=TIMEOUT,
            met=met.append,
            authenticated=lambda status: None,
            counters=RelayCounters(),
        )
        with suppress(ApiError):
            await source.page("/api/v1/pods", {})
        with suppress(ApiError):
            async for _ in source.batches("/api/v1/pods", {}):
                break
        documents = DocumentSource(
            transport,
            timeout=TIMEOUT,
            met=met.append,
            authenticated=lambda status: None,
            received=lambda size: None,
        )
        await documents.fetch("/version", {})
        await transport.close()

    with RawServer(serve) as server:
        asyncio.run(ask())
        assert len(server.requests) == 3
    return met


@pytest.mark.parametrize("status", ["200 OK", "401 X", "403 X", "404 X", "410 X", "429 X", "500 X"])
def test_r4_what_an_api_server_says_is_a_sign_of_it(status: str) -> None:
    json = "Content-Type: application/json\r\n"
    assert met_with(status, json) == [LinkEvidence.ANSWERED] * 3


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 X", "504 Gateway Timeout"])
def test_r4_what_a_gateway_says_for_it_is_no_sign_of_an_api_server(status: str) -> None:
    assert met_with(status) == []


def test_r4_what_another_relay_tells_with_its_age_is_no_sign_of_an_api_server() -> None:
    assert met_with("200 OK", "Age: 0\r\n") == []
