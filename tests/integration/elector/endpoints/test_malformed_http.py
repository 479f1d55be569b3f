"""Bad queries and what is no HTTP at all: 4xx, never a traceback, and the process lives on."""

import re
import socket

import pytest

from tests.integration.elector.pair import Pair
from tools.harness.pods.wire.http_client import answered, raw


@pytest.mark.parametrize(
    ("path", "value", "remedy"),
    [
        ("/readyz?min_remaining=abc", "'abc'", "15s"),
        ("/readyz?min_remaining=", "''", "15s"),
        ("/readyz?min_age=-1s", "'-1s'", "15s"),
        ("/readyz?wait=2h", "2h", "at most 3600s"),
        ("/readyz?wait=nan", "'nan'", "15s"),
        ("/readyz?wait=" + "9" * 5000, "999", "15s"),
        ("/readyz?token=x", "'x'", "/leader"),
        ("/readyz?token=-1", "'-1'", "/leader"),
        ("/readyz?token=" + "9" * 5000, "999", "/leader"),
        ("/readyz?min-remaining=3s", "'min-remaining'", "min_remaining"),
        ("/readyz?min_age=1s&min_age=2s", "'min_age'", "twice"),
        ("/readyz?%ff=1", "not UTF-8", "percent-encode"),
        ("/%ff", "not UTF-8", "percent-encode"),
        ("/readyz?min_age=%zz", "%zz", "15s"),
        ("/leader?watch=yes", "'yes'", "watch=true"),
        ("/leader?wach=true", "'wach'", "watch"),
    ],
)
def test_a_bad_query_is_400_with_the_value_and_the_remedy(
    pair: Pair, path: str, value: str, remedy: str
) -> None:
    for pod in (pair.leader, pair.standby):
        answer = answered(pod, path)
        assert answer.status == 400
        text = answer.body.decode()
        assert value in text
        assert remedy in text
        assert text.count("\n") == 1


@pytest.mark.parametrize(
    "query", ["cooldown=x", "cooldown=0", "cooldown=999ms", "cooldown=-1s", "cool=1s"]
)
def test_a_bad_cooldown_is_400_and_the_leader_stays(pair: Pair, query: str) -> None:
    assert answered(pair.leader, f"/resign?{query}", method="POST").status == 400
    assert pair.leader.is_leader()


MALFORMED = {
    "binary": b"\x00\x01\x02\xff\xfe\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 64,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no path": b"GET\r\n\r\n",
    "no version": b"GET /readyz\r\n\r\n",
    "odd version": b"GET /readyz HTTP/9.9\r\nHost: x\r\n\r\n",
    "space in path": b"GET /ready z HTTP/1.1\r\nHost: x\r\n\r\n",
    "header without colon": b"GET /readyz HTTP/1.1\r\nHost\r\n\r\n",
    "bad header name": b"GET /readyz HTTP/1.1\r\nHo st: x\r\n\r\n",
    "NUL in header": b"GET /readyz HTTP/1.1\r\nHost: \x00\r\n\r\n",
    "huge path": b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "huge query": b"GET /readyz?min_age=" + b"1" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "huge header": b"GET /readyz HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": b"GET /readyz HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    "two lengths": b"POST /resign HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "negative length": b"POST /resign HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "length and chunks": (
        b"POST /readyz HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_no_http_gets_4xx_or_nothing_and_never_a_traceback(pair: Pair, kind: str) -> None:
    answer = raw(pair.leader.port, MALFORMED[kind])
    statuses = re.findall(rb"^HTTP/1\.[01] (\d{3})", answer, re.MULTILINE)
    assert all(status.startswith(b"4") for status in statuses), answer
    assert answered(pair.leader, "/livez").status == 200
    assert "Traceback" not in pair.leader.log_text()


@pytest.mark.parametrize(
    "content",
    [
        b"POST /leader HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\xff",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nshort",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        b"GET http://elsewhere/livez HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
        b"GET /livez HTTP/1.0\r\n\r\n",
        b"GET /%zz%1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /x\\y%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_odd_http_is_answered_without_a_traceback(pair: Pair, content: bytes) -> None:
    answer = raw(pair.leader.port, content)
    statuses = re.findall(rb"^HTTP/1\.[01] (\d{3})", answer, re.MULTILINE)
    assert all(status[:1] in b"1234" for status in statuses), answer
    assert b"\nX: y" not in answer
    assert answered(pair.leader, "/livez").status == 200
    assert "Traceback" not in pair.leader.log_text()


def test_half_a_request_holds_nobody_up(pair: Pair) -> None:
    with socket.create_connection(("127.0.0.1", pair.leader.port)) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHos")
        assert answered(pair.leader, "/readyz").status == 200
        connection.sendall(b"t: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", pair.leader.port)) as connection:
        connection.sendall(b"GET /re")
    assert answered(pair.leader, "/readyz").status == 200
