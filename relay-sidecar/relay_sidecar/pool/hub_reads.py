"""Reads of a peer's relay, through the local proxy of the pool-sidecar.

Guarantee: an answer is bounded in bytes and seconds.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

from edge_sidecars.kubeapi import Unreachable
from relay_sidecar.upstream.reflector.source import UpstreamSource

# Where the pool-sidecar of this node takes reads of a peer's relay.
PREFIX: Final = "/relay/"
# Seconds for a whole list, as a client's first one; a LAN has it in less.
LIST_WITHIN: Final = 60.0
# Bytes; more is left to the API server.
MAX_LIST: Final = 64 * 1024 * 1024


class HubReads:
    """`source`: of that proxy. `page` and `batches` as it has them, of the peer that is named."""

    def __init__(self, source: UpstreamSource) -> None:
        self._source = source

    async def page(
        self,
        peer: str,
        path: str,
        params: Mapping[str, str],
        *,
        aged: Callable[[float], None],
        accept: str = "application/json",
    ) -> bytearray:
        try:
            async with asyncio.timeout(LIST_WITHIN):
                return await self._source.page(
                    _at(peer, path), params, accept=accept, arrived=_bounded, aged=aged
                )
        except TimeoutError as error:
            raise Unreachable(f"no list of {peer} within {LIST_WITHIN:g}s") from error

    def batches(
        self, peer: str, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        return self._source.batches(_at(peer, path), params)


def _at(peer: str, path: str) -> str:
    return f"{PREFIX}{peer}{path}"


def _bounded(body: bytearray) -> None:
    if len(body) > MAX_LIST:
        raise Unreachable(f"a list of over {MAX_LIST} bytes")
