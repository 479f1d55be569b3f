"""The demo as somebody runs it: it tells what happened, and leaves nothing behind however it ends.

Each run gets a temporary folder of its own, in which everything it makes must be gone again; its
processes are recognized by that folder in their environment or arguments.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.demo.elector.show import PODS
from tools.harness.controlplane.fixtures import require_program
from tools.harness.pods.observers.observer import wait_for

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[4]
# Seconds for a run on a busy machine; a quiet one needs 20.
RUN_TIMEOUT = 240.0
START_TIMEOUT = 90.0
# Seconds until what was orphaned is gone, on a busy machine.
CLEAN_TIMEOUT = 60.0
# Lines and columns.
TERMINAL_SIZE = (24, 100)

Run = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts the demo with output and temporary files in the test's folder."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*flags: str, terminal: int | None = None) -> subprocess.Popen[bytes]:
        # `setsid` (util-linux) becomes the demo; --ctty: keys come only from one's own terminal.
        session = ["setsid"] if terminal is None else ["setsid", "--ctty"]
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(
                [*session, sys.executable, "-m", "tools.demo", "--pause", "0", *flags],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(_temporary(tmp_path)), "TERM": "xterm"},
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=output if terminal is None else terminal,
                stderr=subprocess.STDOUT,
            )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.terminate()
            process.wait(CLEAN_TIMEOUT)


def _temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir(exist_ok=True)
    return folder


def _output(tmp_path: Path) -> str:
    return (tmp_path / "output").read_text(encoding="utf-8")


def _processes(tmp_path: Path) -> list[str]:
    """Command lines of all processes that name the run's temporary folder, in any way."""
    mark = str(_temporary(tmp_path)).encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            command = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
            output = os.readlink(os.fsencode(folder / "fd/1"))
        except OSError:
            continue
        if mark in command + output or b"TMPDIR=" + mark in environment:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def _assert_nothing_left(tmp_path: Path) -> None:
    wait_for(
        lambda: not _processes(tmp_path) and not list(_temporary(tmp_path).iterdir()),
        timeout=CLEAN_TIMEOUT,
        what="the demo's processes and files are gone",
    )


def _wait_for_pods(tmp_path: Path) -> None:
    """Until the mains of all pods run."""
    wait_for(
        lambda: sum("tools.demo.main" in it for it in _processes(tmp_path)) == PODS,
        timeout=START_TIMEOUT,
        what=f"{PODS} mains: {_output(tmp_path)}",
        interval=0.1,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "programs"),
    [((), ()), (("--cluster", "kube"), ("kube-apiserver", "etcd"))],
    ids=["local", "kube"],
)
def test_the_demo_shows_every_takeover_and_outage_and_ends_with_0(
    run: Run, tmp_path: Path, flags: tuple[str, ...], programs: tuple[str, ...]
) -> None:
    for name in programs:
        require_program(name)
    assert run("--lease-duration", "4s", *flags).wait(RUN_TIMEOUT) == 0, _output(tmp_path)
    headline, _, summary = _output(tmp_path).partition("What happened")
    assert (programs or ("the local API server",))[0] in headline
    for step in (
        "three pods start",
        "kill the leader's main",
        "kill the whole leader",
        "cut the leader off",
        "roll all three",
        "cut an edge's link",
        "kill its relay, still cut",
        "changes, then heal its link",
    ):
        assert step in summary
    assert "FAILED" not in summary
    assert ", 0 of them while a newer term led" in summary
    assert ", 0 out of order" in summary
    assert summary.rstrip().endswith("exactly one leader at a time")
    _assert_nothing_left(tmp_path)


@pytest.mark.slow
def test_ctrl_c_ends_the_demo_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    process = run()
    _wait_for_pods(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(CLEAN_TIMEOUT) == 130
    _assert_nothing_left(tmp_path)


@pytest.mark.slow
def test_the_pages_of_a_demo_that_stays_are_open_until_ctrl_c(run: Run, tmp_path: Path) -> None:
    process = run("--stay")
    wait_for(lambda: "until Ctrl-C" in _output(tmp_path), timeout=RUN_TIMEOUT, what="the summary")
    pages = _output(tmp_path).rpartition("until Ctrl-C: ")[2].split()
    assert len(pages) == PODS + 1
    for page in pages:
        asked = urllib.request.Request(page, headers={"Accept": "text/html"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.headers.get_content_type() == "text/html"
    process.send_signal(signal.SIGINT)
    assert process.wait(CLEAN_TIMEOUT) == 130
    _assert_nothing_left(tmp_path)


@pytest.mark.slow
def test_a_demo_that_is_killed_leaves_nothing_either(run: Run, tmp_path: Path) -> None:
    process = run()
    _wait_for_pods(tmp_path)
    process.kill()
    process.wait()
    _assert_nothing_left(tmp_path)


@pytest.mark.slow
def test_a_key_ends_the_demo_on_a_terminal_which_is_then_as_before(
    run: Run, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *TERMINAL_SIZE, 0, 0))
    before = termios.tcgetattr(theirs)
    process = run(terminal=theirs)
    _read_until(ours, process, "three pods start", "valid for", "what its program knows")
    os.write(ours, b"q")
    shown = _read_until(ours, process, "verdict:")
    assert "What happened" in shown.replace("\x1b[3m", "")
    assert process.wait(CLEAN_TIMEOUT) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
    _assert_nothing_left(tmp_path)


def _read_until(terminal: int, process: subprocess.Popen[bytes], *patterns: str) -> str:
    """What the terminal showed, up to matches of all of these and a little more."""
    shown = ""
    deadline = time.monotonic() + START_TIMEOUT
    while missing := [pattern for pattern in patterns if not re.search(pattern, shown)]:
        assert time.monotonic() < deadline, f"{missing} was not shown: {shown}"
        has_ended = process.poll() is not None
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
        else:
            assert not has_ended, f"it ended, and {missing} was not shown: {shown}"
    return shown
