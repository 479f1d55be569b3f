"""Chromium without a window, driven over its DevTools protocol.

Owns: the process and its profile folder. Guarantee: `open_browser` leaves neither behind. A `Tab`
has a width and a colour scheme of its own, and evaluates expressions in the page that it shows.
"""

import asyncio
import base64
import json
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp

from tools.harness.peers.other_informers import Client, command_of, run_build

# Where tests keep what they have drawn; continuous integration keeps it as an artifact.
PICTURES: Final = Path(__file__).parents[2] / "build" / "pages"
# Seconds for a browser on a busy machine.
PATIENCE: Final = 60.0
POLL: Final = 0.05


class Lacking(Exception):
    """There is no Chromium; the message says how to get it."""


def _build_axe(source: Path, target: Path) -> None:
    run_build(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], target)


AXE: Final = Client(
    "axe-core",
    Path(__file__).parent / "peers" / "axe",
    (("npm", "npm"),),
    _build_axe,
    lambda at: (str(at / "node_modules/axe-core/axe.min.js"),),
)
# What its policy forbids, and what its scripts throw.
_PROBLEMS: Final = """window.problems = [];
addEventListener("securitypolicyviolation", (it) =>
  problems.push(`${it.violatedDirective} ${it.blockedURI}`));
addEventListener("error", (it) => problems.push(String(it.message)));
addEventListener("unhandledrejection", (it) => problems.push(String(it.reason)));"""
# What is not right in the page, with the elements, "" for nothing.
_VIOLATIONS: Final = """axe.run().then((found) => found.violations.map((it) =>
  `${it.id}: ${it.nodes.map((node) => node.html).join(" ")}`).join("; "))"""


class Tab:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = json.loads(await self._socket.receive_str())
                if answer.get("id") == self._number:
                    break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        found: dict[str, Any] = answer["result"]
        return found

    async def show(self, url: str, *, width: int, dark: bool = False) -> None:
        """What goes wrong in it is in `window.problems`."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await self.command("Page.enable")
        await self.command("Page.addScriptToEvaluateOnNewDocument", source=_PROBLEMS)
        await self.command("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.command("Emulation.setEmulatedMedia", features=[scheme])
        await self.command("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        """Its value, of a promise what that becomes. Raises RuntimeError for what is thrown."""
        answer = await self.command(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression:.200}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def wait_for(self, expression: str) -> Any:
        """The first value that is true."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(RuntimeError):  # between two pages there is none
                    if found := await self.evaluate(expression):
                        return found
                await asyncio.sleep(POLL)

    async def violations(self) -> str:
        """Of axe-core's rules; "" for none. Raises BuildError where it cannot be fetched."""
        [path] = await asyncio.to_thread(command_of, AXE)
        await self.evaluate(await asyncio.to_thread(Path(path).read_text, encoding="utf-8"))
        return str(await self.evaluate(_VIOLATIONS))

    async def screenshot(self) -> bytes:
        """Of the whole page, as PNG."""
        size = (await self.command("Page.getLayoutMetrics"))["cssContentSize"]
        answer = await self.command(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            clip={**size, "scale": 1},
        )
        return base64.b64decode(answer["data"])

    async def keep(self, name: str) -> None:
        """The whole page as a picture in `PICTURES`."""
        picture = await self.screenshot()
        path = PICTURES / f"{name}.png"
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_bytes, picture)


class Browser:
    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    @asynccontextmanager
    async def tab(self) -> AsyncIterator[Tab]:
        async with self._session.put(f"{self._address}/json/new?about:blank") as answer:
            url = (await answer.json(content_type=None))["webSocketDebuggerUrl"]
        async with self._session.ws_connect(url, max_msg_size=0) as socket:
            yield Tab(socket)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Raises `Lacking`."""
    program = shutil.which("chromium")
    if program is None:
        raise Lacking("chromium is missing: run make test-deps")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            program,
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await asyncio.to_thread(_port, Path(folder, "DevToolsActivePort"))
            async with aiohttp.ClientSession() as session:
                yield Browser(session, f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            await process.wait()


def _port(path: Path) -> int:
    """Which Chromium writes when it listens."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError, ValueError, IndexError):
            return int(path.read_text(encoding="ascii").splitlines()[0])
        time.sleep(POLL)
    raise TimeoutError("chromium does not listen")
