"""A component's page: who gets it, what it forbids browsers, and what its streams cost at most."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import Route, routed
from edge_sidecars.runtime.web.endpoints import json as as_json
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.runtime.web.page import asked, served
from edge_sidecars.runtime.web.page.asked import EVENTS, MAX_STREAMS, Page, wants_html

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
STREAM = {"Accept": "text/event-stream"}
FILES = Path(asked.__file__).parent / "files"
GRACE = 20.0
# Event loops of components: the elector's and pool members', and that of relays, GM and LC.
on_each_loop = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Run = Callable[[Coroutine[Any, Any, None]], None]


class Server:
    """Of a component whose document has `state`, and ages that run on."""

    def __init__(self) -> None:
        self.state = "first"
        self.computed = 0
        self.filler = ""
        routes: dict[str, Route] = {"/": ("GET", self._before), "/status": ("GET", self._before)}
        page = Page("elector", self._document)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await routed(request, routes, page)

        options = ListenerOptions(log="test", backlog=128, shutdown_grace=GRACE, guards=True)
        self.listener = Listener(Address("127.0.0.1", 0), handle, options=options, limit=256)

    async def _before(self, _: web.BaseRequest) -> web.StreamResponse:
        return as_json(b'{"name":"pod-0"}')

    def _document(self) -> bytes:
        self.computed += 1
        document = {"state": self.state, "ageSeconds": self.computed, "filler": self.filler}
        return json.dumps(document).encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.bound.port}"


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Server, aiohttp.ClientSession]]:
    server = Server()
    await server.listener.open()
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(server.url, connector=connector) as session:
            yield server, session
    finally:
        await server.listener.close()


async def event(answer: aiohttp.ClientResponse) -> dict[str, object]:
    async with asyncio.timeout(10):
        while not (line := await answer.content.readline()).startswith(b"data: "):
            assert line == b"\n"
    found: dict[str, object] = json.loads(line.removeprefix(b"data: "))["status"]
    return found


@pytest.mark.parametrize(
    ("accept", "is_page"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML;charset=utf-8", True),
        ("application/json;q=0.5, text/html", True),
        ("*/*", False),  # curl, wget, Go, Python
        ("", False),
        ("application/json", False),
        ("application/json, text/html;q=0.5", False),
        ("text/html;q=0", False),
        ("text/html;q=much", False),
        (JAVA, False),
        ("text/html, image/gif, image/jpeg, */*; q=0.2", False),  # the same of Java 21
    ],
)
def test_only_who_names_html_gets_the_page(accept: str, is_page: bool) -> None:
    assert wants_html(accept) is is_page


def test_everybody_else_gets_what_was_answered_before_there_was_a_page() -> None:
    async def check() -> None:
        async with serving() as (_, session):
            for headers in ({}, {"Accept": JAVA}, {"Accept": "application/json"}):
                async with session.get("/", headers=headers) as answer:
                    assert await answer.read() == b'{"name":"pod-0"}'
                    assert answer.headers["Content-Type"] == "application/json"
                    assert "Content-Security-Policy" not in answer.headers
            async with session.get("/nowhere", headers={"Accept": BROWSER}) as answer:
                assert answer.status == 404
                assert await answer.text() == "unknown path '/nowhere': there are /, /status\n"

    asyncio.run(check())


def test_each_file_is_served_with_a_strict_policy_and_its_type() -> None:
    kinds = {"shell.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}

    async def check() -> None:
        async with serving() as (_, session):
            paths = {"/": "text/html", "/page/elector.js": "text/javascript"}
            paths |= {f"/page/{name}": kind for name, kind in kinds.items()}
            for path, kind in paths.items():
                for method in ("GET", "HEAD", "OPTIONS"):
                    asked_for = session.request(method, path, headers={"Accept": BROWSER})
                    async with asked_for as answer:
                        assert answer.status == 200, path
                        assert answer.content_type == kind
                        assert answer.headers["X-Content-Type-Options"] == "nosniff"
                        policy = answer.headers["Content-Security-Policy"].split("; ")
                        assert policy[0] == "default-src 'none'"
                        assert "script-src 'self'" in policy
                        assert "style-src 'self'" in policy
                        assert "frame-ancestors 'none'" in policy
                        assert "unsafe" not in str(policy)
                        assert bool(await answer.read()) is (method == "GET")
            # Of another component, of the folder above, of a file that is not there.
            for path in ("/page/relay.js", "/page/..%2Fserved.py", "/page/", "/page/x"):
                async with session.get(path) as answer:
                    assert answer.status == 404, path
            async with session.post("/page/shell.js") as answer:
                assert answer.status == 405

    asyncio.run(check())


@on_each_loop
def test_a_stream_sends_a_change_at_once_and_else_a_document_a_second(run: Run) -> None:
    async def check() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as (server, session), session.get(EVENTS, headers=STREAM) as answer:
            assert answer.content_type == "text/event-stream"
            assert (await event(answer))["state"] == "first"
            began = loop.time()
            assert (await event(answer))["state"] == "first"
            assert loop.time() - began > served.INTERVAL / 2, "an age that runs on is no change"
            took = []
            for state in map(str, range(8)):
                server.state, began = state, loop.time()
                while (await event(answer))["state"] != state:
                    pass
                took.append(loop.time() - began)
            assert min(took) < served.INTERVAL / 2

    run(check())


def test_strangers_take_no_more_streams_than_there_are_and_pages_ask_again() -> None:
    async def check() -> None:
        async with serving() as (server, session):
            streams = [await session.get(EVENTS, headers=STREAM) for _ in range(100)]
            assert [it.status for it in streams] == [200] * MAX_STREAMS + [503] * (
                100 - MAX_STREAMS
            )
            assert int(streams[-1].headers["Retry-After"]) > 0
            # What such a page falls back to, and everybody else, is answered.
            async with session.get(EVENTS) as answer:
                assert (await answer.json())["status"]["state"] == "first"
            async with session.get("/") as answer:
                assert answer.status == 200
            before = server.computed
            await asyncio.sleep(1.0)
            assert server.computed - before <= 25, "one document a tick, for all of them"
            streams[0].close()
            again = 503
            async with asyncio.timeout(10):
                while again != 200:
                    await asyncio.sleep(0.05)
                    async with session.get(EVENTS, headers=STREAM) as answer:
                        again = answer.status
            for it in streams:
                it.close()

    asyncio.run(check())


@on_each_loop
def test_a_client_that_does_not_read_costs_one_document_and_is_cut_off(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "STALLED", 1.0)

    async def check() -> None:
        async with serving() as (server, _):
            server.filler = "x" * 4_000_000
            client = socket.create_connection(("127.0.0.1", server.listener.bound.port))
            head = f"GET {EVENTS} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream"
            client.sendall(f"{head}\r\n\r\n".encode())
            async with asyncio.timeout(10):
                while server.listener.taken or not server.computed:
                    held = [
                        it.transport.get_write_buffer_size()
                        for it in server.listener._web.connections
                        if it.transport is not None
                    ]
                    assert sum(held) < 4_100_000
                    await asyncio.sleep(0.05)
            client.close()

    run(check())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.com"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "rebound.example.com"},
    ],
)
def test_pages_of_other_sites_get_no_stream(headers: Mapping[str, str]) -> None:
    async def check() -> None:
        async with serving() as (server, session):
            async with session.get(EVENTS, headers={**STREAM, **headers}) as answer:
                assert answer.status == 403
            own = {**STREAM, "Origin": server.url, "Sec-Fetch-Site": "same-origin"}
            async with session.get(EVENTS, headers=own) as answer:
                assert answer.status == 200

    asyncio.run(check())


@on_each_loop
def test_streams_end_with_the_listener(run: Run) -> None:
    async def check() -> None:
        async with serving() as (server, session):
            streams = [await session.get(EVENTS, headers=STREAM) for _ in range(MAX_STREAMS)]
            loop = asyncio.get_running_loop()
            began = loop.time()
            await server.listener.close()
            assert loop.time() - began < GRACE / 4, "no shutdown waits for them"
            for it in streams:
                async with asyncio.timeout(5):
                    try:
                        await it.content.read()
                    except aiohttp.ClientPayloadError:
                        continue
                    finally:
                        it.close()

    run(check())


def test_nothing_of_the_page_is_loaded_until_somebody_asks() -> None:
    code = (
        "import sys, edge_sidecars.runtime.web.endpoints;"
        "print([it for it in sys.modules if it.startswith('edge_sidecars.runtime.web.page.')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['edge_sidecars.runtime.web.page.asked']"


def test_no_file_has_markup_of_values_inline_code_or_another_host() -> None:
    """What would put a value into the page as markup, or need a laxer policy."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
        r"|\bon[a-z]+=|style=|javascript:|<button|<form|https?://(?!www\.w3\.org/2000/svg)"
    )
    files = [it for it in FILES.iterdir() if it.is_file()]
    assert {it.suffix for it in files} == served._TYPES.keys()
    for path in files:
        assert forbidden.findall(path.read_text(encoding="utf-8")) == [], path.name
        assert "<script>" not in path.read_text(encoding="utf-8")
