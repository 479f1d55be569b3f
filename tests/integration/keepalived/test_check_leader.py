"""keepalived's check against a server that answers as an elector might, or should not."""

import shutil
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tools.nemesis.vip.keepalived import SHIPPED

CHECK = SHIPPED / "check-leader"


class Elector:
    """Answers the n-th request with the n-th status; 0: not at all. Strict: more is a 418."""

    def __init__(self, path: Path) -> None:
        self.statuses: list[int] = []
        self.asked: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.asked.append(self.path)
                status = owner.statuses.pop(0) if owner.statuses else 418
                if status == 0:
                    time.sleep(5)
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def address_string(self) -> str:
                return "unix"

            def log_message(self, format: str, *args: object) -> None:
                """Silence: the test reads `asked`."""

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            block_on_close = False

        self.server = Server(str(path), Handler)
        self.url = f"unix:{path}"

    def serve(self) -> None:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def elector(tmp_path: Path) -> Iterator[Elector]:
    if shutil.which("curl") is None:
        pytest.skip("curl is missing: apt-get install curl")
    one = Elector(tmp_path / "elector.sock")
    one.serve()
    yield one
    one.server.shutdown()
    one.server.server_close()


def check(*words: object) -> int:
    command = [str(CHECK), *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode


def agrees(elector: Elector, *words: object) -> bool:
    """Of an elector that does. Asked again if it failed: it has a second, in which a busy machine
    may stand still."""
    for _ in range(5):
        elector.statuses, elector.asked = [200, 200], []
        if check(elector.url, *words) == 0:
            return True
    return False


@pytest.mark.parametrize(
    ("interval", "timeout", "fall", "hold", "wait"),
    [(1, 1, 1, 2, 600), (1, 1, 2, 3, 600), (2, 1, 3, 7, 600), (3, 2, 1, 5, 1600)],
)
def test_validity_and_age_are_asked_for_as_long_as_the_old_owner_may_keep_the_address(
    elector: Elector, interval: int, timeout: int, fall: int, hold: int, wait: int
) -> None:
    assert agrees(elector, interval, timeout, fall)
    asked = f"/readyz?promise=false&min_remaining={hold}s"
    assert elector.asked == [asked, f"{asked}&min_age={hold}s&wait={wait}ms"]


def test_an_elector_of_an_earlier_release_is_asked_without_what_it_refuses(
    elector: Elector,
) -> None:
    elector.statuses = [400, 200, 200]
    assert check(elector.url, 1, 1, 1) == 0
    assert elector.asked == [
        "/readyz?promise=false&min_remaining=2s",
        "/readyz?min_remaining=2s",
        "/readyz?min_remaining=2s&min_age=2s&wait=600ms",
    ]


def test_a_standby_fails_at_its_first_answer(elector: Elector) -> None:
    elector.statuses = [503]
    assert check(elector.url, 1, 1, 1) == 1
    assert len(elector.asked) == 1


@pytest.mark.parametrize(
    "statuses",
    [[200, 503], [200, 302], [302, 200], [204, 200], [200, 204], [400, 400], [404], [500]],
)
def test_anything_but_200_twice_is_a_failure(elector: Elector, statuses: list[int]) -> None:
    elector.statuses = statuses
    assert check(elector.url, 1, 1, 1) == 1


@pytest.mark.parametrize("statuses", [[0], [200, 0]])
def test_an_elector_that_hangs_is_a_failure(elector: Elector, statuses: list[int]) -> None:
    elector.statuses = statuses
    assert check(elector.url, 1, 1, 1) == 1


def test_an_elector_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    assert check(f"unix:{tmp_path / 'nobody.sock'}", 1, 1, 1) == 1
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert check(f"http://127.0.0.1:{port}", 1, 1, 1) == 1


def test_a_proxy_that_the_environment_names_is_not_asked(
    elector: Elector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert agrees(elector, 1, 1, 1)


@pytest.mark.parametrize(
    "words",
    [
        [],
        [1, 1],
        [1, 1, 1, 1],
        [0, 1, 1],
        [1, 2, 1],
        [1, 1, ""],
        [1.5, 1, 1],
        ["01", "01", 1],
    ],
)
def test_durations_that_do_not_hold_the_reckoning_are_a_failure(
    elector: Elector, words: list[object]
) -> None:
    elector.statuses = [200, 200]
    assert check(elector.url, *words) == 1
    assert elector.asked == []


@pytest.mark.parametrize("url", ["", "127.0.0.1:4040", "https://127.0.0.1:4040", "unix:relative"])
def test_an_address_that_is_none_is_a_failure(url: str) -> None:
    assert check(url, 1, 1, 1) == 1
