"""asyncio's own pace: what takes several turns of a loop, and tells nobody when it is done.

Guarantee: of a server that was ended, no connection is left, those accepted a moment ago included;
an open one would be found by garbage collection, in another test.
"""

import asyncio
from typing import Any

from aiohttp import web

# asyncio takes three to wrap an accepted connection.
TURNS = 5
# Seconds.
TLS_SHUTDOWN = 20.0


async def settle() -> None:
    """Lets asyncio finish with accepted connections, and with the sockets of closed ones."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def end(runner: web.BaseRunner) -> None:
    """Closes all sockets, then all connections: the server has to know them first."""
    for site in list(runner.sites):
        await site.stop()
    await settle()
    await runner.cleanup()
    await settle()


async def connections_closed() -> None:
    """Returns when no connection of this loop is open; those of closed clients end their TLS in the
    background."""
    loop: Any = asyncio.get_running_loop()
    async with asyncio.timeout(TLS_SHUTDOWN):
        # One is the loop's own.
        while len(loop._selector.get_map()) > 1:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
