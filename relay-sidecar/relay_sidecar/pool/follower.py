"""Follows /sources of the pool-sidecar of this node: a line at each change, and every 2 s.

Guarantees: a server that refuses, ends or garbles everything is asked with growing delays, and one
that falls silent is left; the token is read again when its file changes. Knows no line's meaning.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Never

from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.pool.core.pool_sources import MAX_VALID, SourcesLine

PATH: Final = "/sources"
OPEN_TIMEOUT: Final = 2.0
# Seconds; it is on this machine, and a restart of it takes half a second.
LONGEST_DELAY: Final = 5.0
# Seconds; a stream that lasted so long was worth its while: it brought three lines.
GOOD: Final = MAX_VALID


async def follow(pool: ApiClient, heard: Callable[[SourcesLine], None]) -> Never:
    """`heard` is called with each line."""
    backoff = Backoff(longest=LONGEST_DELAY)
    following = _Following(pool, heard)
    while True:
        began = boottime()
        why = await following.once()
        if boottime() - began >= GOOD:
            backoff.succeeded()
        delay = backoff.failed(1.0 - random.random() / 2)
        level = logger.debug if following.is_lost else logger.warning
        level("the pool-sidecar does not answer", extra=fields(why=why, delay=delay))
        following.is_lost = True
        await asyncio.sleep(delay)


class _Following:
    def __init__(self, pool: ApiClient, heard: Callable[[SourcesLine], None]) -> None:
        self._pool = pool
        self._heard = heard
        # That it was lost was logged, and it has not answered since.
        self.is_lost = False

    async def once(self) -> str:
        """Until the stream ends; why it did."""
        lines = self._pool.lines(PATH, open_timeout=OPEN_TIMEOUT, params={"watch": "true"})
        try:
            async with aclosing(lines):
                while True:
                    async with asyncio.timeout(MAX_VALID):
                        line = await anext(lines, None)
                    if line is None:
                        return "it ended the stream"
                    self._heard(SourcesLine.parse(line))
                    if self.is_lost:
                        logger.info("the pool-sidecar answers again")
                    self.is_lost = False
        except TimeoutError:
            return f"no line for {MAX_VALID:g}s"
        except ValueError as error:
            return f"not a line of /sources: {error}"
        except (ApiError, Unreachable) as error:
            return str(error)
