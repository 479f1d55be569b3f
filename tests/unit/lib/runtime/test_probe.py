"""`livez` against servers that answer, refuse and hang; each program's own way to it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from edge_sidecars.runtime.cli import probe
from tools.harness.pods.wire.raw_server import Connection, RawServer

# Each program's package, and the variable that says where it listens.
PROGRAMS = [
    ("elector_sidecar", "ELECTOR_LISTEN"),
    ("relay_sidecar", "RELAY_STATUS_LISTEN"),
    ("gm", "GM_LISTEN"),
    ("lc", "LC_BIND_PORT"),
]


def answering(status: str, body: bytes = b"") -> Callable[[Connection], None]:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(body, status=status)

    return serve


def livez(*arguments: str, listen: str = "127.0.0.1:1") -> int:
    return probe.livez(list(arguments), program="it", listen=listen)


def test_it_asks_whether_the_program_lives_and_nothing_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with RawServer(answering("200 OK", b"ok\n")) as server:
        assert livez(f"--url={server.url}") == 0
    assert server.requests[0].split(b" ")[:2] == [b"GET", b"/livez"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("status", ["503 Service Unavailable", "404 Not Found", "2000 OK"])
def test_any_other_answer_fails_and_is_told(
    status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with RawServer(answering(status, b"deaf\n")) as server:
        assert livez("--url", server.url) == 1
    assert capsys.readouterr().err == f"it livez: {status.split()[0]} deaf\n"


def test_nobody_there_and_nobody_in_time_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert livez() == 1
    assert "no answer from it at http://127.0.0.1:1: Connection refused" in capsys.readouterr().err

    def hang(connection: Connection) -> None:
        connection.request()
        time.sleep(1)

    with RawServer(hang) as server:
        assert livez("--url", server.url, "--timeout", "0.2s") == 1
    assert f"it livez: no answer from it at {server.url}: timed out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--url"], "--url lacks its value"),
        (["--min-age", "1s"], "--min-age is not an option"),
        (["--url", "https://x"], "is not like"),
        (["--timeout", "soon"], "is not in seconds"),
    ],
)
def test_bad_use_is_2(arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert livez(*arguments) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(("package", "variable"), PROGRAMS)
def test_each_program_asks_where_it_is_told_to_listen(package: str, variable: str) -> None:
    with RawServer(answering("200 OK", b"ok\n")) as server:
        where = server.url.removeprefix("http://")
        told = where.rpartition(":")[2] if variable.endswith("PORT") else where
        done = subprocess.run(
            [sys.executable, "-m", package, "livez"],
            env={"PATH": os.defpath, variable: told},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert server.requests[0].startswith(b"GET /livez ")


@pytest.mark.parametrize(("package", "variable"), PROGRAMS[:3])
def test_a_listener_on_every_address_is_asked_on_this_machine(package: str, variable: str) -> None:
    with RawServer(answering("200 OK", b"ok\n")) as server:
        port = server.url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", package, "livez"],
            env={"PATH": os.defpath, variable: f"0.0.0.0:{port}"},
            check=False,
        )
    assert done.returncode == 0


@pytest.mark.parametrize("package", [package for package, _ in PROGRAMS])
def test_a_program_without_any_input_says_what_it_lacks_in_one_line(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", package],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "--help" in done.stderr or "--lease my-controller" in done.stderr
    assert done.stdout == ""
