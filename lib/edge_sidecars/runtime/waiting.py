"""Waiting for an event, for so long at most."""

import asyncio


async def is_set(event: asyncio.Event, *, within: float | None) -> bool:
    """Returns when it is set; False if it was not within so many seconds, None: without end."""
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False
