"""The status documents of components, each followed at the address of its own page.

Guarantees: a component is asked over one connection, which is the stream that its page has; where
all places of streams are taken it is asked every `POLL` seconds, as a page does. No proxy is asked,
and no redirect is followed. What was heard last stays, with the reason why nothing newer comes. A
component that answers anything else than a page's document costs a request a second at most.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from edge_sidecars.runtime.web.page.asked import EVENTS

COMPONENTS: Final = ("elector", "relay", "pool", "gm", "lc")
# Seconds; a stream has a document each second.
SILENCE: Final = 5.0
CONNECT: Final = 3.0
AGAIN: Final = 1.0
POLL: Final = 3.0
# Seconds in which a component whose streams are taken is asked, until a stream is tried again.
POLL_FOR: Final = 30.0
# Bytes of one document: 10,000 streams, nodes or objects are shorter.
MAX_DOCUMENT: Final = 16 * 1024 * 1024
_FULL: Final = 503
_DATA: Final = b"data: "


class NoDocument(Exception):
    """What was answered is none of ours; the message says what it is."""


@dataclass
class Followed:
    """`address` as the user wrote it, `url` without a path; `wall`: the component's wall clock in
    its document, `heard_at` when that came by our monotonic clock; `problem`: why nothing newer
    comes, "" for nothing."""

    address: str
    url: str
    component: str = ""
    status: dict[str, Any] | None = None
    wall: float = 0.0
    heard_at: float = 0.0
    problem: str = ""

    def age(self, now: float) -> float:
        """Seconds since the document came; 0 where none did."""
        return max(now - self.heard_at, 0.0) if self.status is not None else 0.0

    def hear(self, text: bytes) -> None:
        """Raises `NoDocument`."""
        try:
            found = json.loads(text)
            component, status, wall = found["component"], found["status"], found["wallSeconds"]
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise NoDocument("its answer is no document of a page of this release") from error
        is_ours = component in COMPONENTS and isinstance(status, dict)
        if not is_ours or not isinstance(wall, int | float):
            raise NoDocument(f"{component!r:.40} is no component that is known here")
        self.component, self.status, self.wall = component, status, float(wall)
        self.heard_at, self.problem = time.monotonic(), ""


@asynccontextmanager
async def following(
    components: Sequence[Followed], changed: Callable[[], None]
) -> AsyncIterator[None]:
    """Keeps them up to date while it is entered; `changed` is called after each news."""
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT, sock_read=SILENCE)
    async with (
        aiohttp.ClientSession(
            timeout=timeout, read_bufsize=MAX_DOCUMENT, trust_env=False, auto_decompress=False
        ) as session,
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(_keep_following(session, it, changed)) for it in components]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _keep_following(
    session: aiohttp.ClientSession, it: Followed, changed: Callable[[], None]
) -> None:
    while True:
        began = time.monotonic()
        try:
            await _follow(session, it, changed)
            it.problem = "it ended the stream"
        except NoDocument as error:
            it.problem = str(error)
        except TimeoutError:
            it.problem = f"no answer for {SILENCE:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # ValueError: aiohttp's, for a line that is longer than the buffer.
            it.problem = _in_words(error)
        changed()
        await asyncio.sleep(max(began + AGAIN - time.monotonic(), AGAIN / 2))


async def _follow(
    session: aiohttp.ClientSession, it: Followed, changed: Callable[[], None]
) -> None:
    """Until the stream ends, or it is time to try one again."""
    headers = {"Accept": "text/event-stream"}
    async with session.get(it.url + EVENTS, headers=headers, allow_redirects=False) as answer:
        if answer.status == _FULL:
            answer.close()
            await _poll(session, it, changed)
            return
        _check(answer, "text/event-stream")
        while line := await answer.content.readline():
            if line.startswith(_DATA):
                it.hear(line.removeprefix(_DATA))
                changed()


async def _poll(session: aiohttp.ClientSession, it: Followed, changed: Callable[[], None]) -> None:
    until = time.monotonic() + POLL_FOR
    headers = {"Accept": "application/json"}
    while time.monotonic() < until:
        async with session.get(it.url + EVENTS, headers=headers, allow_redirects=False) as answer:
            _check(answer, "application/json")
            it.hear(await _whole(answer))
        changed()
        await asyncio.sleep(POLL)


def _check(answer: aiohttp.ClientResponse, kind: str) -> None:
    if answer.status != 200:
        raise NoDocument(f"it answers {answer.status} to {EVENTS}: no page is there")
    if answer.content_type != kind:
        raise NoDocument(f"it answers with {answer.content_type!r:.40}: no page is there")


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """Raises `NoDocument` for one that is too long."""
    found = bytearray()
    async for chunk in answer.content.iter_any():
        found += chunk
        if len(found) > MAX_DOCUMENT:
            raise NoDocument(f"its document is longer than {MAX_DOCUMENT} bytes")
    return bytes(found)


def _in_words(error: Exception) -> str:
    """One line; the system's own words where there are some."""
    number = error.errno if isinstance(error, OSError) else None
    words = os.strerror(number) if number else str(error) or type(error).__name__
    return " ".join(words.split())[:200]
