"""What is used of aiohttp without a promise is looked for before anything is sent."""

import asyncio.sslproto
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler

from edge_sidecars.kubeapi.aiohttp_private import abort, missing_in_aiohttp

KUBEAPI = Path(__file__).parents[4] / "lib/edge_sidecars/kubeapi"


def test_the_installed_aiohttp_has_all_that_is_used() -> None:
    assert missing_in_aiohttp() == []


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (aiohttp.StreamReader, "_low_water"),
        (aiohttp.ClientResponse, "connection"),
        (ResponseHandler, "should_close"),
    ],
)
def test_what_is_gone_is_named(owner: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(owner, name)
    assert missing_in_aiohttp() == [f"{owner.__name__}.{name}"]


def test_another_way_to_make_connections_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(self: object, req: object, timeout: object) -> None: ...

    monkeypatch.setattr(aiohttp.TCPConnector, "_create_connection", create)
    [missing] = missing_in_aiohttp()
    assert missing == "TCPConnector._create_connection(self, req, traces, timeout)"


def test_an_unfit_aiohttp_ends_the_import_with_one_line() -> None:
    remove = "import aiohttp; del aiohttp.StreamReader.on_eof; import edge_sidecars.kubeapi"
    process = subprocess.run(
        [sys.executable, "-c", remove], capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    last = process.stderr.splitlines()[-1]
    assert f"aiohttp {aiohttp.__version__} cannot be used: it lacks StreamReader.on_eof" in last


def test_only_one_module_uses_private_attributes_of_aiohttp() -> None:
    """`aiohttp.client_proto` and its like are not documented either."""
    for path in KUBEAPI.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for private in (
            *("client_proto", "client_reqrep", "_create_connection", "_low_water"),
            "_ssl_protocol",
        ):
            assert (private in text) == (path.name == "aiohttp_private.py"), (path, private)


class TlsTransportOf3112(asyncio.sslproto._SSLProtocolTransport):
    """`abort` as Python 3.11.2 has it, which Debian 12 and so the images' base have."""

    def __init__(self) -> None:
        self._closed = True
        self._ssl_protocol = None

    def abort(self) -> None:
        protocol: Any = self._ssl_protocol
        protocol._abort()


def test_a_tls_connection_that_was_closed_twice_can_be_aborted() -> None:
    transport = TlsTransportOf3112()
    with pytest.raises(AttributeError):
        transport.abort()
    abort(transport)
