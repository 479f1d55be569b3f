"""Addresses of the API server's name, also while no DNS server answers.

Guarantees: one lookup of a name at a time, however many ask; where a lookup fails or takes long,
the addresses that were found last are used, so that an API server can be reached again as soon
as the link is, not when the resolver's time-out is over.
"""

import asyncio
import time
from functools import partial
from socket import AF_INET, AddressFamily

from aiohttp.abc import AbstractResolver, ResolveResult

# Seconds in which a name is not looked up again: aiohttp's own default, ttl_dns_cache.
FRESH_FOR = 10.0
# Seconds; a lookup that takes longer goes on, but who has an address does not wait for it.
PATIENCE = 0.3

Name = tuple[str, int, AddressFamily]


class Resolver(AbstractResolver):
    """Shared by all connections of one caller; `names` is who is asked, `fresh_for` in seconds."""

    def __init__(self, names: AbstractResolver, *, fresh_for: float = FRESH_FOR) -> None:
        self._names = names
        self._fresh_for = fresh_for
        self._lookups: dict[Name, asyncio.Task[list[ResolveResult]]] = {}
        self._found: dict[Name, tuple[float, list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError where the name was never found."""
        name = (host, port, family)
        found_at, found = self._found.get(name, (0.0, None))
        if found is not None and time.monotonic() - found_at < self._fresh_for:
            return found
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._lookups[name] = asyncio.create_task(self._look_up(name))
            lookup.add_done_callback(partial(self._forget, name))
        await asyncio.wait({lookup}, timeout=None if found is None else PATIENCE)
        if found is not None and (not lookup.done() or lookup.exception() is not None):
            return found
        return lookup.result()

    async def close(self) -> None:
        for lookup in tuple(self._lookups.values()):
            lookup.cancel()

    def _forget(self, name: Name, lookup: asyncio.Task[list[ResolveResult]]) -> None:
        del self._lookups[name]
        if not lookup.cancelled():
            lookup.exception()  # its waiters may be gone, and asyncio would report it

    async def _look_up(self, name: Name) -> list[ResolveResult]:
        found = await self._names.resolve(*name)
        self._found[name] = (time.monotonic(), found)
        return found
