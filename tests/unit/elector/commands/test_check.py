"""`check` against servers that answer, refuse, hang and babble; and what it costs to import."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elector_sidecar.commands.check import main
from tools.harness.pods.wire.raw_server import Connection, RawServer

PROOF = "X-Leader-Valid-Until: 12.5\r\n"


def answering(
    status: str, body: bytes = b"", *, headers: str = PROOF
) -> Callable[[Connection], None]:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(body, status=status, headers=headers)

    return serve


def test_only_200_is_success(capsys: pytest.CaptureFixture[str]) -> None:
    with RawServer(answering("200 OK", b"ok\n")) as server:
        assert main(["--url", server.url], {}) == 0
    assert capsys.readouterr() == ("", "")


def test_200_of_somebody_else_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with RawServer(answering("200 OK", b"ok", headers="Server: other\r\n")) as server:
        assert main(["--url", server.url], {}) == 1
    assert capsys.readouterr().err.endswith(f"the server at {server.url} is no elector\n")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("503 Service Unavailable", 1),
        ("404 Not Found", 1),
        ("204 No Content", 1),
        ("302 Found", 1),
        ("2000 OK", 1),
        ("400 Bad Request", 2),
    ],
)
def test_every_other_answer_is_a_failure_with_its_reason(
    status: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with RawServer(answering(status, b"not leader: held by x\n")) as server:
        assert main([f"--url={server.url}"], {}) == code
    assert capsys.readouterr().err == "elector-sidecar check: not leader: held by x\n"


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        ([], b"/readyz"),
        (["--min-remaining", "2s"], b"/readyz?min_remaining=2s"),
        (["--min-remaining=2s", "--min-age=500ms"], b"/readyz?min_remaining=2s&min_age=500ms"),
        (["--min-age", "1.5"], b"/readyz?min_age=1.5"),
    ],
)
def test_the_conditions_are_asked_for(flags: list[str], target: bytes) -> None:
    with RawServer(answering("200 OK")) as server:
        assert main(["--url", server.url, *flags], {}) == 0
    assert server.requests[0].split(b" ")[:2] == [b"GET", target]


def test_a_unix_socket_is_asked_too(tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    with RawServer(answering("200 OK"), path=path):
        assert main(["--url", f"unix:{path}"], {}) == 0
    assert main(["--url", f"unix:{path}"], {}) == 1, "nobody listens any more"
    assert main(["--url", f"unix:{tmp_path / 'other'}"], {}) == 1
    assert main(["--url", "unix:/" + "x" * 200], {}) == 1


def silent(connection: Connection) -> None:
    connection.request()
    assert connection.sees_end(within=10)


def trickling(connection: Connection) -> None:
    connection.request()
    while not connection.sees_end(within=0.05):
        connection.send(b"H")


def endless(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 503 No\r\n\r\n")
    while not connection.sees_end(within=0.0001):
        connection.send(b"x" * 65536)


@pytest.mark.parametrize("serve", [silent, trickling, endless])
def test_a_server_that_never_comes_to_an_end_is_given_up_in_time(
    serve: Callable[[Connection], None],
) -> None:
    with RawServer(serve) as server:
        started = time.monotonic()
        assert main(["--url", server.url, "--timeout", "0.5s"], {}) == 1
        assert time.monotonic() - started < 10


def test_a_refused_connection_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with RawServer(silent) as server:
        pass
    assert main(["--url", server.url], {}) == 1
    assert "no answer from the elector" in capsys.readouterr().err


@pytest.mark.parametrize(
    "babble",
    [
        b"",
        b"\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"\x16\x03\x01\x00\xff",
        b"HTTP/1.1",
        b"200 OK",
        b"HTTP/1.1 200",
    ],
)
def test_what_is_no_http_is_a_failure(babble: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(babble)

    with RawServer(serve) as server:
        assert main(["--url", server.url], {}) == 1
    assert "not HTTP" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--nothing"], "--nothing"),
        (["extra"], "extra"),
        (["--url"], "--url lacks its value"),
        (["--url", "https://127.0.0.1:4040"], "https://127.0.0.1:4040"),
        (["--url", "http://127.0.0.1"], "http://127.0.0.1"),
        (["--url", "http://127.0.0.1:99999"], "99999"),
        (["--url", "http://127.0.0.1:4040/readyz"], "/readyz"),
        (["--timeout", "x"], "'x'"),
        (["--timeout", "-1"], "'-1'"),
        (["--timeout", "0"], "'0'"),
        (["--timeout", "nan"], "'nan'"),
        (["--timeout", "1e9"], "'1e9'"),
        (["--min-age", "3 s"], "'3 s'"),
        (["--min-age="], "--min-age ''"),
        (["--min-remaining", ""], "--min-remaining ''"),
        (["--min-age", "1s&wait=1h"], "'1s&wait=1h'"),
        (["--min-remaining", "1s\r\nX: y"], r"'1s\r\nX: y'"),
    ],
)
def test_bad_use_is_2_and_names_the_value(
    arguments: list[str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, {}) == 2
    assert value in capsys.readouterr().err


def test_help_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"], {}) == 0
    assert "--min-remaining" in capsys.readouterr().out


def imported(*arguments: str) -> set[str]:
    """The modules that a process of this command line imports."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elector_sidecar", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return {
        line.rpartition("|")[2].strip()
        for line in process.stderr.splitlines()
        if line.startswith("import time:")
    }


def test_check_imports_neither_asyncio_nor_aiohttp() -> None:
    """It is started every second by probes; an interpreter takes 15 ms, aiohttp 200 more."""
    modules = imported("check", "--url", "http://127.0.0.1:1")
    assert "socket" in modules
    assert "elector_sidecar.commands.check" in modules
    for costly in (
        "asyncio",
        "aiohttp",
        "json",
        "logging",
        "argparse",
        "ssl",
        "urllib",
        "edge_sidecars.kubeapi",
    ):
        assert costly not in modules


def test_a_pods_process_imports_neither_kubernetes_nor_what_it_does_not_use() -> None:
    """Up to the point where its service account is missing: all modules are imported by then."""
    flags = ["--lease", "x", "--namespace", "ns", "--server", "https://127.0.0.1:1"]
    modules = imported(*flags, "--service-account-dir", "/nonexistent")
    assert "elector_sidecar.elector" in modules
    for costly in ("kubernetes", "opentelemetry", "uvloop", "yaml", "difflib", "requests"):
        assert costly not in modules
