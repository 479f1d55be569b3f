"""Rule 9.6: one resource that fails upstream while all else works. What is kept is answered with
its age within --read-timeout; where nothing is kept, upstream's own answer is passed on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Json, Parameters, Reply
from tools.harness.pods.wire.raw_server import Connection, RawServer

pytestmark = pytest.mark.slow

GROUP = "/apis/example.com/v1"
PATH = f"{GROUP}/namespaces/n/widgets"
ANY: Parameters = {"resourceVersion": "0"}
WATCH_LIST: Parameters = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
    "timeoutSeconds": 60,
}
NAMES = ["a", "b"]
# Seconds: --read-timeout; less than what the relay would wait for anything else.
READ_TIMEOUT, REQUEST_TIMEOUT, SOON = 2.0, 12.0, 20.0
STATUSES = {500: "500 Internal Server Error", 403: "403 Forbidden", 503: "503 Service Unavailable"}
# What a gateway, or a portal, answers for people.
PAGES = {200: "200 OK", 404: "404 Not Found"}
# What a gateway answers whose backend is away, or a filter before it that lets no request through.
PLAIN_404 = 4040
TEXT, DOCUMENT = "text/plain; charset=utf-8", "application/json"
NO_BACKEND = {
    PLAIN_404: ("404 Not Found", TEXT, b"404 page not found"),
    4041: ("404 Not Found", DOCUMENT, b'{"message":"no Route matched with those values"}'),
    4030: ("403 Forbidden", TEXT, b"blocked"),
    4010: ("401 Unauthorized", DOCUMENT, b'{"message":"No API key found in request"}'),
    4000: ("400 Bad Request", TEXT, b""),
}


def widget(name: str) -> Json:
    meta = {"name": name, "namespace": "n", "resourceVersion": "90", "uid": name}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}


class Upstream:
    """Two widgets. `broken` verbs are answered with `status`; running watches of them end."""

    def __init__(self) -> None:
        self.status = 500
        self.broken: frozenset[str] = frozenset()
        self.serves_groups = False
        # The body and the headers of the answer to each DELETE.
        self.deletion = b"", ""
        self._changed = threading.Condition()

    def fail(self, status: int, verbs: Sequence[str]) -> None:
        with self._changed:
            self.status, self.broken = status, frozenset(verbs)
            self._changed.notify_all()

    def serve(self, connection: Connection) -> None:
        with suppress(ConnectionError):
            while request := connection.request():
                if request.startswith(b"DELETE "):
                    body, headers = self.deletion
                    connection.answer(body, headers=headers)
                else:
                    self._answer(connection, request.split(b" ", 2)[1].decode())

    def _answer(self, connection: Connection, target: str) -> None:
        path, _, query = target.partition("?")
        verb = "watch" if "watch=true" in query else "list" if path == PATH else "get"
        if path == "/apis" and self.serves_groups:
            connection.answer(b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}')
        elif not path.startswith(PATH):
            connection.answer(b"{}")
        elif verb in self.broken and self.status in NO_BACKEND:
            status, content_type, body = NO_BACKEND[self.status]
            connection.answer(body, status=status, headers=f"Content-Type: {content_type}\r\n")
        elif verb in self.broken and self.status in PAGES:
            page = "Content-Type: text/html\r\n"
            connection.answer(b"<html>", status=PAGES[self.status], headers=page)
        elif verb in self.broken:
            code = STATUSES[self.status]
            refusal = {"kind": "Status", "apiVersion": "v1", "message": code, "code": self.status}
            connection.answer(json.dumps(refusal).encode(), status=code)
        elif verb == "watch":
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            with self._changed:
                self._changed.wait_for(lambda: "watch" in self.broken, timeout=60.0)
            connection.send(b"0\r\n\r\n")
        elif verb == "list":
            items = [widget(name) for name in NAMES]
            meta = {"resourceVersion": "100"}
            document = {"apiVersion": "example.com/v1", "kind": "WidgetList", "metadata": meta}
            connection.answer(json.dumps({**document, "items": items}).encode())
        else:
            connection.answer(json.dumps(widget(path.rpartition("/")[2])).encode())


@contextmanager
def relay_before(upstream: Upstream) -> Iterator[RelayProcess]:
    with RawServer(upstream.serve) as server:
        flags = [f"--read-timeout={READ_TIMEOUT:g}s", f"--request-timeout={REQUEST_TIMEOUT:g}s"]
        relay = RelayProcess([f"--server={server.url}", *flags])
        try:
            yield relay.start()
        finally:
            upstream.fail(500, ("watch",))
            relay.stop()


def state_of(relay: RelayProcess) -> str:
    [state] = [it["state"] for it in relay.status()["streams"] if it["resource"].startswith("wid")]
    return str(state)


def watched_state(client: Caller) -> tuple[list[str], str | None, float]:
    """What a WatchList tells, its Age and the seconds until all of it is there."""
    began = time.monotonic()
    with client.watch(PATH, WATCH_LIST) as watching:
        watching.wait_initial_end()
        names = [seen.name for seen in watching.events("ADDED")]
        return names, watching.headers.get("Age"), time.monotonic() - began


def assert_kept(reply: Reply) -> None:
    assert (reply.status, "Age" in reply.headers) == (200, True), reply.body
    assert reply.seconds < READ_TIMEOUT


VERBS = {"list": ("list",), "watch": ("watch",), "all": ("list", "watch", "get")}


@pytest.mark.parametrize("broken", VERBS)
@pytest.mark.parametrize("status", [500, 503, *PAGES, *NO_BACKEND])
def test_what_is_kept_of_a_failing_resource_is_answered_with_its_age(
    broken: str, status: int
) -> None:
    upstream = Upstream()
    with relay_before(upstream) as relay:
        client = Caller(relay.url)
        wait_for(lambda: client.get(PATH, ANY).names == NAMES, timeout=SOON, what="the list")
        wait_for(lambda: state_of(relay) == "live", timeout=SOON, what="a live stream")
        # The watch has to be opened again in any case.
        upstream.fail(status, ("list", "watch"))
        wait_for(lambda: state_of(relay) != "live", timeout=SOON, what="an interrupted stream")
        upstream.fail(status, VERBS[broken])
        for _ in range(3):
            listed = client.get(PATH, ANY)
            assert listed.names == NAMES
            assert listed.seconds < READ_TIMEOUT
            got = client.get(f"{PATH}/a", ANY)
            assert (got.status, got.seconds < READ_TIMEOUT) == (200, True)
            names, age, seconds = watched_state(client)
            assert (names, seconds < READ_TIMEOUT) == (NAMES, True)
            if broken == "all":
                assert_kept(listed)
                assert_kept(got)
                assert_kept(client.get(PATH))
                assert_kept(client.get(f"{PATH}/a"))
                assert age is not None


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("query", [ANY, {}, WATCH_LIST], ids=["any", "newest", "watch"])
def test_where_nothing_is_kept_upstreams_own_answer_is_passed_on(
    status: int, query: Parameters
) -> None:
    upstream = Upstream()
    upstream.fail(status, VERBS["all"])
    with relay_before(upstream) as relay:
        client = Caller(relay.url)
        asked = {**query, "watch": "true"} if query is WATCH_LIST else query
        for _ in range(3):
            reply = client.get(PATH, asked)
            assert (reply.status, reply.json()["message"]) == (status, STATUSES[status])
            assert reply.seconds < READ_TIMEOUT


def test_a_resource_that_the_api_server_does_not_serve_any_more_is_forgotten() -> None:
    """It says so in plain text, as a gateway does; but its groups are there."""
    upstream = Upstream()
    upstream.serves_groups = True
    with relay_before(upstream) as relay:
        client = Caller(relay.url)
        wait_for(lambda: client.get(PATH, ANY).names == NAMES, timeout=SOON, what="the list")
        wait_for(lambda: state_of(relay) == "live", timeout=SOON, what="a live stream")
        upstream.fail(PLAIN_404, VERBS["all"])
        wait_for(lambda: client.get(PATH, ANY).status == 404, timeout=SOON, what="a 404")
        assert not relay.status()["streams"]


@pytest.mark.parametrize("status", [*NO_BACKEND, 404])
def test_what_is_not_the_api_servers_refusal_forgets_no_object(status: int) -> None:
    upstream = Upstream()
    with relay_before(upstream) as relay:
        client = Caller(relay.url)
        assert client.get(f"{PATH}/a").status == 200
        upstream.fail(status, ("get",))
        client.get(f"{PATH}/a")
        upstream.fail(503, VERBS["all"])
        assert_kept(client.get(f"{PATH}/a"))


@pytest.mark.parametrize(
    ("body", "content_type"), [(b"<html>log in", "text/html"), (b"ok", TEXT), (b"", "")]
)
def test_a_deletion_that_a_portal_answers_forgets_no_object(body: bytes, content_type: str) -> None:
    upstream = Upstream()
    upstream.deletion = body, f"Content-Type: {content_type}\r\n" if content_type else ""
    with relay_before(upstream) as relay:
        client = Caller(relay.url)
        assert client.get(f"{PATH}/a").status == 200
        assert client.delete(f"{PATH}/a").status == 200
        upstream.fail(503, VERBS["all"])
        assert_kept(client.get(f"{PATH}/a"))


def test_a_resource_that_works_again_is_live_again() -> None:
    upstream = Upstream()
    with relay_before(upstream) as relay:
        client = Caller(relay.url)
        wait_for(lambda: client.get(PATH, ANY).names == NAMES, timeout=SOON, what="the list")
        upstream.fail(500, VERBS["all"])
        wait_for(lambda: "Age" in client.get(PATH, ANY).headers, timeout=SOON, what="an age")
        upstream.fail(500, ())
        wait_for(lambda: "Age" not in client.get(PATH, ANY).headers, timeout=SOON, what="no age")
