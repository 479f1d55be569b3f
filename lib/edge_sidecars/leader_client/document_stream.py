"""The JSON documents that an elector streams on one path, over as many connections as it takes.

Owns redialling, and how long silence is believed. Knows nothing of what the documents mean.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from edge_sidecars.kubeapi import ApiClient, ApiError, Plain, Unreachable
from edge_sidecars.leader_client.lead import NotAnElectorDocument
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.log import fields, logger

# Seconds; an elector sends its document each second.
SILENCE = 3.0
OPEN_TIMEOUT = 2.0
# Seconds; the elector is on this machine, and a restart of it takes half a second.
LONGEST_REDIAL = 1.0


Document = TypeVar("Document")


async def follow(
    url: str,
    path: str,
    *,
    user_agent: str,
    parse: Callable[[dict[str, Any]], Document],
    asked: Callable[[], None],
    heard: Callable[[Document], None],
) -> None:
    """Until cancelled. Calls `asked` before it sends a request, and `heard` with each document in
    its order; where `parse` raises `NotAnElectorDocument`, it dials again."""
    elector = ApiClient(Plain(url), user_agent=user_agent)
    backoff = Backoff(longest=LONGEST_REDIAL)
    is_lost = False
    try:
        while True:
            try:
                asked()
                async for document in _documents(elector, path):
                    parsed = parse(document)
                    if is_lost:
                        logger.info("the elector answers again")
                    is_lost = False
                    backoff.succeeded()
                    heard(parsed)
                why = "it ended the stream"
            except (ApiError, Unreachable, NotAnElectorDocument) as error:
                why = str(error)
            delay = backoff.failed(random.random())
            level = logger.debug if is_lost else logger.warning
            level("the elector does not answer", extra=fields(why=why, delay=delay))
            is_lost = True
            await asyncio.sleep(delay)
    finally:
        await elector.close()


async def _documents(elector: ApiClient, path: str) -> AsyncIterator[dict[str, Any]]:
    lines = elector.lines(path, open_timeout=OPEN_TIMEOUT, params={"watch": "true"})
    async with aclosing(lines):
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    line = await anext(lines, None)
            except TimeoutError as error:
                raise Unreachable(f"no word for {SILENCE:g}s") from error
            if line is None:
                return
            yield _decoded(line)


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotAnElectorDocument(f"no JSON: {line[:80]!r}") from error
    if not isinstance(document, dict):
        raise NotAnElectorDocument(f"no JSON object: {line[:80]!r}")
    return document
