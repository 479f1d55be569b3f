"""R9: what is passed on, against servers and clients that misbehave byte by byte."""

import gzip
import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing

import pytest

from edge_sidecars.kubeapi import NotSent, Plain, Unreachable
from edge_sidecars.kubeapi.transport import POOLED_FOR_WRITES
from relay_sidecar.core.link import LinkEvidence
from tests.integration.raw_client import PATIENCE, RawClient
from tests.integration.relay.passed_on.passing import MODE, UNANSWERED, Passing, through
from tools.harness.pods.wire.raw_server import Connection, RawServer

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WRITES = ["PUT", "POST", "DELETE", "PATCH"]
# Seconds for what one side did to reach the other one through the relay.
ARRIVAL = 0.4

Serve = Callable[[Connection], None]


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def answer_all(connection: Connection) -> None:
    while connection.request():
        connection.answer(b"whole")


def ask(
    port: int,
    method: str = "GET",
    path: str = "/x",
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with closing(connection):
        connection.request(method, path, body, dict(headers or {}))
        with connection.getresponse() as response:
            return response, response.read()


def status(port: int, method: str = "GET", **options: str) -> int:
    return ask(port, method, headers=options, body=None if method == "GET" else b"{}")[0].status


# ── what reaches upstream ──


@pytest.mark.parametrize("mode", ["fetch", "forward"])
def test_r9_a_read_with_a_body_does_not_take_the_next_request_for_it(mode: str) -> None:
    """Over the connection that the next client's request goes: it would be of another's making."""
    with RawServer(answer_all) as server, Passing(Plain(server.url)).host() as relay:
        for content in (b"abc", b"POST /theirs HTTP/1.1\r\nHost: x\r\n\r\n"):
            asked = {MODE: mode, "Content-Length": str(len(content))}
            assert ask(relay.port, headers=asked, body=content)[0].status == 200
            assert ask(relay.port, path="/mine", headers={MODE: mode})[0].status == 200
    assert [request.split(b" ")[1] for request in server.requests] == [b"/x", b"/mine"] * 2
    assert not server.errors


def test_r4_the_rest_of_an_answer_is_not_waited_for_longer_than_its_head() -> None:
    def stall(connection: Connection) -> None:
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        connection.sees_end(within=PATIENCE)

    with RawServer(stall) as server, Passing(Plain(server.url)).host() as relay:
        began = time.monotonic()
        assert status(relay.port, **{MODE: "fetch"}) == UNANSWERED[Unreachable]
        assert time.monotonic() - began < PATIENCE / 2


def test_r9_what_is_no_path_is_refused() -> None:
    with RawServer(answer_all) as server, Passing(Plain(server.url)).host() as relay:
        for target in ("http://other/x", "*"):
            with RawClient(relay.port) as client:
                client.send(f"OPTIONS {target} HTTP/1.1\r\nHost: relay\r\n\r\n".encode())
                assert client.head()[0] == 400
    assert server.requests == []


REQUEST = (
    b"POST /x HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer theirs\r\nX-A: 1\r\nX-A: 2\r\n"
    b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n"
    b"Proxy-Authorization: x\r\nAccept: a/b\r\nAccept-Encoding: zstd\r\nUser-Agent: someone\r\n"
    b"Content-Type: application/apply-patch+yaml\r\nContent-Length: 2\r\nImpersonate-User: me\r\n"
    b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n{}"
)
PASSED_ON = [
    b"X-A: 1",
    b"X-A: 2",
    b"Accept: a/b",
    b"Accept-Encoding: zstd",
    b"User-Agent: someone",
    b"Content-Type: application/apply-patch+yaml",
    b"Content-Length: 2",
    b"Impersonate-User: me",
    b"Sec-WebSocket-Protocol: v4.channel.k8s.io",
]


@pytest.mark.parametrize("token", [None, "callers"])
def test_r9_headers_from_end_to_end_go_on_and_no_others(token: str | None) -> None:
    with through(answer_all, token=token) as (server, client):
        client.send(REQUEST)
        assert client.head()[0] == 200
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    expected = [f"Host: 127.0.0.1:{server.port}".encode(), *PASSED_ON]
    if token is not None:
        expected.append(b"Authorization: Bearer callers")
    assert head.split(b"\r\n")[1:] == expected
    assert body == b"{}"


@pytest.mark.parametrize("mode", ["forward", "write"])
def test_r9_who_waits_to_be_asked_for_a_body_is_asked_once(mode: str) -> None:
    head = (
        "PUT /x HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\nContent-Length: 5\r\n"
        f"{MODE}: {mode}\r\n\r\n"
    )
    with through(answer_all) as (server, client):
        client.send(head.encode())
        assert client.head() == (100, [])
        client.send(b"hello")
        assert client.head()[0] == 200
    assert server.requests[0].endswith(b"\r\n\r\nhello")
    assert b"Expect" not in server.requests[0]


@pytest.mark.parametrize("mode", ["forward", "write"])
def test_r9_nobody_is_asked_for_a_body_that_cannot_be_sent(mode: str) -> None:
    head = (
        "PUT /x HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\nContent-Length: 5\r\n"
        f"{MODE}: {mode}\r\n\r\n"
    )
    passing = Passing(Plain(gone()))
    passing.may_be_asked = False
    with passing.host() as relay, RawClient(relay.port) as client:
        client.send(head.encode())
        assert client.head()[0] == 503


def test_r9_nobody_is_asked_for_a_long_body_before_there_is_a_connection() -> None:
    with Passing(Plain(gone())).host() as relay, RawClient(relay.port) as client:
        client.send(
            b"PUT /x HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\nContent-Length: 999999\r\n\r\n"
        )
        assert client.head()[0] == 503


def test_r9_a_body_that_is_too_long_to_be_kept_is_refused() -> None:
    with RawServer(answer_all) as server, Passing(Plain(server.url)).host() as relay:
        headers = {MODE: "write", "Expect": "100-continue", "Content-Length": "100000000"}
        with RawClient(relay.port) as client:
            told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            client.send(f"PUT /x HTTP/1.1\r\nHost: r\r\n{told}\r\n".encode())
            assert client.head()[0] == 413
    assert server.requests == []


def test_r9_who_leaves_takes_the_exchange_along() -> None:
    ended = threading.Semaphore(0)

    def serve(connection: Connection) -> None:
        connection.request()
        assert connection.sees_end(within=5), "the exchange outlived its client"
        ended.release()

    with RawServer(serve) as server, Passing(Plain(server.url)).host() as relay:
        for request in (
            b"GET /x HTTP/1.1\r\nHost: r\r\n\r\n",
            b"PUT /x HTTP/1.1\r\nHost: r\r\nContent-Length: 2\r\n\r\n{}",
        ):
            with RawClient(relay.port) as client:
                client.send(request)
                time.sleep(ARRIVAL)
            assert ended.acquire(timeout=PATIENCE)


# ── answers ──


@pytest.mark.parametrize("mode", ["forward", "fetch"])
def test_r9_an_answer_comes_as_it_was_sent(mode: str) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(
            b"whole",
            status="409 Own Words",
            headers="Warning: 299 - one\r\nWarning: 299 - two\r\nRetry-After: 1\r\n"
            "Connection: close, X-Hop\r\nX-Hop: 1\r\nContent-Type: a/b\r\n",
        )

    with RawServer(serve) as server, Passing(Plain(server.url)).host() as relay:
        response, body = ask(relay.port, headers={MODE: mode})
    assert (response.status, response.reason, body) == (409, "Own Words", b"whole")
    assert response.headers.get_all("Warning") == ["299 - one", "299 - two"]
    assert (response.headers["Retry-After"], response.headers["Content-Type"]) == ("1", "a/b")
    assert response.headers["Content-Length"] == "5"
    assert "X-Hop" not in response.headers


def test_r9_answers_without_a_body_have_none() -> None:
    answers = {
        b"/204": b"HTTP/1.1 204 No Content\r\n\r\n",
        b"/304": b"HTTP/1.1 304 Same\r\nETag: x\r\n\r\n",
        b"/head": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
    }

    def serve(connection: Connection) -> None:
        while request := connection.request():
            connection.send(answers[request.split(b" ")[1]])

    with through(serve) as (_, client):
        for method, path, code in (
            ("GET", "/204", 204),
            ("GET", "/304", 304),
            ("HEAD", "/head", 200),
            ("GET", "/204", 204),
        ):
            client.send(f"{method} {path} HTTP/1.1\r\nHost: r\r\n\r\n".encode())
            found, headers = client.head()
            assert found == code
            lengths = [value for name, value in headers if name == "Content-Length"]
            assert lengths == (["1000"] if method == "HEAD" else [])
            assert not any(name == "Transfer-Encoding" for name, _ in headers)


def test_r9_a_client_of_http_1_0_gets_bytes_and_an_end() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"one") + chunk(b"two") + b"0\r\n\r\n")

    with through(serve) as (_, client):
        client.send(b"GET /x HTTP/1.0\r\nHost: r\r\n\r\n")
        assert client.head()[0] == 200
        assert client.rest() == b"onetwo"


def test_r9_an_answer_that_ends_with_its_connection_is_passed_on() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(b"HTTP/1.0 200 OK\r\n\r\nall there is")

    with RawServer(serve) as server, Passing(Plain(server.url)).host() as relay:
        assert ask(relay.port)[1] == b"all there is"


WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


def end(connection: Connection) -> None:
    """The server closes it when its function returns."""


def talk_nonsense(connection: Connection) -> None:
    connection.send(b"nonsense\r\n")


@pytest.mark.parametrize(
    ("head", "begin", "how"),
    [
        (WITH_LENGTH, b"short", end),
        (WITH_LENGTH, b"short", Connection.reset),
        (CHUNKED, chunk(b"short"), end),
        (CHUNKED, chunk(b"short"), Connection.reset),
        (CHUNKED, chunk(b"short"), talk_nonsense),
    ],
    ids=["length", "length-reset", "chunks", "chunks-reset", "chunks-nonsense"],
)
def test_r6_an_answer_that_breaks_off_never_looks_whole(
    head: bytes, begin: bytes, how: Serve
) -> None:
    has_come = threading.Event()

    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(head + begin)
        assert has_come.wait(PATIENCE)
        how(connection)

    with RawServer(serve) as server, Passing(Plain(server.url)).host() as relay:
        with RawClient(relay.port) as client:
            client.send(b"GET /x HTTP/1.1\r\nHost: r\r\n\r\n")
            assert client.head()[0] == 200
            got = client.until(b"short")
            has_come.set()
            got += client.rest()
        assert b"0\r\n\r\n" not in got
        has_come.clear()
        with RawClient(relay.port) as client:
            client.send(b"GET /x HTTP/1.0\r\nHost: r\r\n\r\n")
            client.until(b"short")
            has_come.set()
            # A client of HTTP/1.0 may take any end for the end, but not a reset.
            with pytest.raises(ConnectionResetError):
                client.rest()
        response, body = ask(relay.port, headers={MODE: "fetch"})
    assert (response.status, b"short" in body) == (UNANSWERED[Unreachable], False)


# ── what happened to a request ──


def close_unanswered(connection: Connection) -> None:
    connection.request()


def gone(serve: Serve = close_unanswered) -> str:
    """The URL of a server that has stopped."""
    with RawServer(serve) as server:
        return server.url


@pytest.mark.parametrize("mode", ["forward", "write"])
@pytest.mark.parametrize("method", WRITES)
def test_r6_a_write_that_was_not_sent_may_be_sent_again(method: str, mode: str) -> None:
    with Passing(Plain(gone())).host() as relay:
        response, body = ask(relay.port, method, headers={MODE: mode}, body=b"{}")
    told = json.loads(body)
    assert response.status == 503
    assert (told["kind"], told["reason"], told["code"]) == ("Status", "ServiceUnavailable", 503)


@pytest.mark.parametrize("mode", ["forward", "write"])
@pytest.mark.parametrize("method", WRITES)
def test_r6_a_write_that_got_no_answer_is_sent_once_and_is_not_to_be_sent_again(
    method: str, mode: str
) -> None:
    with RawServer(close_unanswered) as server, Passing(Plain(server.url)).host() as relay:
        response, body = ask(relay.port, method, headers={MODE: mode}, body=b"{}")
    told = json.loads(body)
    assert (response.status, told["kind"], told["reason"]) == (504, "Status", "Timeout")
    assert "Retry-After" not in response.headers
    assert "retryAfterSeconds" not in told.get("details", {})
    assert len(server.requests) == 1


def test_what_changes_nothing_upstream_takes_a_connection_that_is_there() -> None:
    """A TokenRequest, though it is a POST."""
    with RawServer(answer_all) as server, Passing(Plain(server.url)).host() as relay:
        for _ in range(3):
            asked = ask(relay.port, "POST", headers={MODE: "change-nothing"}, body=b"{}")
            assert (asked[0].status, asked[1]) == (200, b"whole")
            time.sleep(2 * POOLED_FOR_WRITES)
        assert ask(relay.port, "POST", body=b"{}")[0].status == 200
    assert (len(server.requests), server.connections) == (4, 2)


def test_what_changes_nothing_upstream_is_asked_again_where_its_connection_ends() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"whole")
        connection.request()

    with RawServer(serve) as server:
        passing = Passing(Plain(server.url))
        with passing.host() as relay:
            for _ in range(3):
                asked = ask(relay.port, "POST", headers={MODE: "change-nothing"}, body=b"{}")
                assert (asked[0].status, asked[1]) == (200, b"whole")
    assert set(passing.evidence) == {LinkEvidence.ANSWERED}


@pytest.mark.parametrize("mode", ["forward", "fetch"])
def test_r9_a_read_on_a_kept_connection_that_ends_is_answered_over_a_new_one(mode: str) -> None:
    """The API server closes connections that were idle for long, or goes and comes."""

    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"whole")
        connection.request()

    passing = Passing(Plain(""))
    with RawServer(serve) as server:
        passing = Passing(Plain(server.url))
        with passing.host() as relay:
            for _ in range(3):
                response, body = ask(relay.port, headers={MODE: mode})
                assert (response.status, body) == (200, b"whole")
    assert set(passing.evidence) == {LinkEvidence.ANSWERED}


@pytest.mark.parametrize("mode", ["forward", "fetch"])
def test_r6_a_read_without_an_answer_is_left_to_who_may_know_one(mode: str) -> None:
    with Passing(Plain(gone())).host() as relay:
        response, _ = ask(relay.port, headers={MODE: mode})
        assert response.status == UNANSWERED[NotSent]
    with RawServer(close_unanswered) as server, Passing(Plain(server.url)).host() as relay:
        response, _ = ask(relay.port, headers={MODE: mode})
        assert response.status == UNANSWERED[Unreachable]
    assert len(server.requests) == 1


def test_r4_while_the_link_is_down_nothing_is_tried() -> None:
    with RawServer(answer_all) as server:
        passing = Passing(Plain(server.url))
        with passing.host() as relay:
            passing.may_be_asked = False
            for mode in ("forward", "fetch"):
                response, _ = ask(relay.port, headers={MODE: mode})
                assert response.status == UNANSWERED[NotSent]
            for mode in ("forward", "write"):
                response, _ = ask(relay.port, "PUT", headers={MODE: mode}, body=b"{}")
                assert response.status == 503
    assert server.connections == 0
    assert passing.evidence == []


def test_r4_what_requests_meet_with_is_told_of_the_link() -> None:
    def serve(connection: Connection) -> None:
        request = connection.request()
        if b"/gateway" in request:
            connection.answer(b"", status="503 Nobody There")
        elif b"/silent" in request:
            connection.sees_end(within=PATIENCE)
        elif b"/x" in request:
            connection.answer(b"whole")

    with RawServer(serve) as server:
        passing = Passing(Plain(server.url))
        with passing.host() as relay:
            ask(relay.port, path="/x")
            ask(relay.port, path="/gateway")
            ask(relay.port, path="/closed")
            ask(relay.port, path="/silent", headers={MODE: "fetch"})
    assert passing.evidence == [LinkEvidence.ANSWERED, LinkEvidence.REFUSED, LinkEvidence.TIMED_OUT]
    passing = Passing(Plain(gone()))
    with passing.host() as relay:
        ask(relay.port)
    assert passing.evidence == [LinkEvidence.REFUSED]


# ── whole answers ──


def test_r9_over_the_link_answers_come_packed_whatever_the_client_takes() -> None:
    plain = b"whole" * 100_000

    def serve(connection: Connection) -> None:
        while request := connection.request():
            assert b"Accept-Encoding: gzip\r\n" in request
            connection.answer(gzip.compress(plain), headers="Content-Encoding: gzip\r\n")

    with RawServer(serve) as server, Passing(Plain(server.url)).host() as relay:
        response, body = ask(relay.port, headers={MODE: "fetch"})
        assert (response.headers["Content-Encoding"], body) == (None, plain)
        headers = {MODE: "fetch", "Accept-Encoding": "gzip"}
        response, body = ask(relay.port, headers=headers)
        assert (response.headers["Content-Encoding"], gzip.decompress(body)) == ("gzip", plain)


@pytest.mark.parametrize(
    "broken",
    [b"no gzip at all", gzip.compress(b"content" * 100)[:-9], b""],
    ids=["none", "cut", "empty"],
)
def test_r6_what_cannot_be_unpacked_is_no_answer(broken: bytes) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(broken, headers="Content-Encoding: gzip\r\n")

    with RawServer(serve) as server, Passing(Plain(server.url)).host() as relay:
        response, body = ask(relay.port, headers={MODE: "fetch"})
    expected = UNANSWERED[Unreachable] if broken else 200
    assert (response.status, b"content" in body) == (expected, False)
