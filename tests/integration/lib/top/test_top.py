"""`edge-sidecars top` as people start it: in a terminal, in a script, from the wheel."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import venv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edge_sidecars.runtime.version import VERSION
from tests.integration.lib.runtime.page_documents import MARKUP, STATES
from tests.integration.lib.top.shown_components import ShownComponent, shown
from tests.unit.repository.checkout import ROOT, block

PROGRAM = Path(sys.executable).with_name("edge-sidecars")
# Seconds on a busy machine.
PATIENCE = 120.0
# Of a terminal.
ROWS, COLUMNS = 60, 160
ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A program in a terminal of its own; `seen`: all that it wrote."""

    def __init__(self, descriptor: int, process: asyncio.subprocess.Process) -> None:
        self._descriptor = descriptor
        self.process = process
        self.seen = b""

    async def wait_for(self, text: str, *, since: int = 0) -> None:
        async with asyncio.timeout(PATIENCE):
            while text.encode() not in self.seen[since:]:
                await self._read()

    async def rest(self) -> None:
        """Until the program has ended."""
        async with asyncio.timeout(PATIENCE):
            ended = asyncio.create_task(self.process.wait())
            while not ended.done():
                await self._read()

    async def _read(self) -> None:
        try:
            self.seen += os.read(self._descriptor, 65536)
        except BlockingIOError:
            await asyncio.sleep(0.02)
        except OSError:  # the program has closed its side
            await asyncio.sleep(0.02)


@asynccontextmanager
async def terminal(*arguments: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.set_blocking(ours, False)
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM),
        *arguments,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": os.environ["PATH"], "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


async def run(*arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors, without a terminal."""
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "COLUMNS": str(COLUMNS)},
    )
    async with asyncio.timeout(PATIENCE):
        said, errors = await process.communicate()
    return process.returncode or 0, said.decode(), errors.decode()


def test_a_terminal_shows_each_component_and_follows_changes() -> None:
    async def watch() -> None:
        elector = ShownComponent("elector", STATES["elector"][0].status)
        lc = ShownComponent("lc", STATES["lc"][0].status)
        async with shown(elector, lc) as addresses, terminal("top", *addresses) as it:
            for text in ("web-0 leads", "The link to GM is up", *addresses):
                await it.wait_for(text)
            assert ALTERNATE in it.seen
            lc.status = STATES["lc"][1].status
            await it.wait_for("The link to the relay is down", since=len(it.seen))
            await elector.listener.close()
            await it.wait_for("Old: ", since=len(it.seen))
            before = len(it.seen)
            await it.wait_for("web-0 leads", since=before)
            it.process.send_signal(signal.SIGINT)
            await it.rest()
            assert it.process.returncode == 0
            assert BACK in it.seen
            assert b"Traceback" not in it.seen

    asyncio.run(watch())


def test_a_component_that_comes_later_is_shown() -> None:
    async def watch() -> None:
        relay = ShownComponent("relay", STATES["relay"][0].status)
        async with shown(relay) as [address]:
            await relay.listener.close()
            async with terminal("top", address) as it:
                await it.wait_for("Connection refused")
                again = ShownComponent("relay", STATES["relay"][0].status)
                again.listener.bound = relay.listener.bound
                async with shown(again):
                    await it.wait_for("The link is up")

    asyncio.run(watch())


def test_a_component_whose_streams_are_taken_is_asked_by_itself() -> None:
    async def watch() -> None:
        full = ShownComponent("elector", STATES["elector"][0].status, streams=0)
        async with shown(full) as [address], terminal("top", address) as it:
            await it.wait_for("web-0 leads")
            full.status = STATES["elector"][3].status
            await it.wait_for("led until", since=len(it.seen))

    asyncio.run(watch())


def test_a_script_gets_the_present_state_and_whether_all_answered() -> None:
    async def ask() -> None:
        async with shown() as addresses:
            status, said, errors = await run(str(PROGRAM), "top", "--once", *addresses)
            assert (status, errors) == (0, "")
            for words in ("web-0 leads", "The link is up", "by its own link", "This GM leads"):
                assert words in said
            assert "\x1b" not in said
            assert MARKUP in said
            status, said, _ = await run(str(PROGRAM), "top", *addresses[:1], "127.0.0.1:9")
            assert status == 1
            assert "Connection refused" in said

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "words"),
    [("/status", "no page is there"), ("/", "no page is there")],
)
def test_what_is_no_component_is_called_so(path: str, words: str) -> None:
    """A server that answers all paths, as a web site does: with 404, and with HTML."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        line = b"HTTP/1.1 404 Not Found" if path == "/" else b"HTTP/1.1 200 OK"
        head = line + b"\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: close"
        writer.write(head + b"\r\n\r\nhi")
        await writer.drain()
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            status, said, _ = await run(str(PROGRAM), "top", "--once", str(port))
            assert status == 1
            assert words in said

    asyncio.run(ask())


def test_the_commands_of_the_manual_work() -> None:
    lines = block("docs/how-to/look-at-it.md", "Several at once", "sh").splitlines()

    async def ask() -> None:
        async with shown() as addresses:
            for line in lines:
                places = iter(addresses)
                words = [next(places) if "127.0.0.1:" in it else it for it in line.split()]
                assert words[:2] == ["edge-sidecars", "top"]
                if "--web" in words:
                    await _serves(words[2:])
                    continue
                status, said, errors = await run(str(PROGRAM), *words[1:])
                assert (status, errors) == (0, ""), line
                assert "web-0 leads" in said

    assert sum("--web" in line for line in lines) == 1
    asyncio.run(ask())


async def _serves(words: list[str]) -> None:
    command = [str(PROGRAM), "top", *words, "--listen", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        line = await process.stdout.readline()
    assert re.fullmatch(rb"http://127\.0\.0\.1:\d+/\n", line)
    process.terminate()
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == 0


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of the wheel, in an environment of its own; of what is here it has only what
    the wheel depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    subprocess.run(
        [*install, "--no-index", "--disable-pip-version-check", str(wheel)],
        capture_output=True,
        check=True,
    )
    [own] = (folder / "venv/lib").glob("python*/site-packages")
    [ours] = Path(sys.prefix, "lib").glob("python*/site-packages")
    # A path in a .pth file is no place where further .pth files are read: not our own packages.
    (own / "dependencies.pth").write_text(f"{ours}\n", encoding="utf-8")
    return folder / "venv/bin"


def test_the_wheel_has_the_program_and_all_that_it_draws_with(installed: Path) -> None:
    program = str(installed / "edge-sidecars")

    async def ask() -> None:
        status, said, _ = await run(program, "--version")
        assert (status, said) == (0, f"edge-sidecars {VERSION}\n")
        code = "import edge_sidecars.top as it; print(it.__file__)"
        _, where, _ = await run(str(installed / "python"), "-c", code)
        assert Path(where).is_relative_to(installed.parent)
        async with shown() as addresses:
            status, said, errors = await run(program, "top", "--once", *addresses)
            assert (status, errors) == (0, "")
            assert "web-0 leads" in said

    asyncio.run(ask())
