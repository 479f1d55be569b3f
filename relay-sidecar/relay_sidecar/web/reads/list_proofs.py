"""LIST without a version, answered from a live stream once upstream has said what it holds now.

Upstream is asked for names and versions only, and who asks for the same scope meanwhile shares the
next such question. Each answer is also a comparison of the stream with upstream (`reflectors`).
Guarantee: what is proved was upstream's state after the reader came.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiError
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.core.stream.metadata_list import (
    NOT_IN_THIS_FORM,
    MetadataList,
    read_metadata,
)
from relay_sidecar.streams.stream import Stream
from relay_sidecar.web.reads.freshness import Freshness
from relay_sidecar.web.reads.rounds import Rounds

# Seconds; contract: for events that are on their way.
EVENT_WAIT: Final = 0.3
# Seconds; the next event of a busy collection comes sooner than its names are read.
EVENT_PATIENCE: Final = 0.01
# Objects; the names of more are read beside the event loop.
MANY: Final = 1000
# Scopes whose last proof is known, 100 bytes each.
MAX_SCOPES: Final = 1000
# Seconds for which a scope is not asked about again: upstream has no metadata of it, or fails.
NO_METADATA_FOR: Final = 60.0
FAILED_FOR: Final = 5.0


class MetadataSource(Protocol):
    async def metadata(self, scope: ListScope, *, header_timeout: float) -> bytearray | None:
        """The whole list as metadata; None where upstream itself is cut off. Raises `ApiError` and
        `Unreachable`."""
        ...


@dataclass(frozen=True, slots=True)
class ListProof:
    """Upstream held at `at_least`, or at a later version that the stream has come to since, what
    the stream holds of the scope. `turns`: of the stream's histories then."""

    stream: Stream
    at_least: int
    turns: int

    @property
    def version(self) -> int | None:
        """At which upstream held what the stream holds now; None where the stream has been emptied
        or dropped since, or cannot show all."""
        stream = self.stream
        if stream.is_dropped or not stream.is_whole or stream.turns != self.turns:
            return None
        return max(self.at_least, stream.version)


@dataclass(slots=True)
class _Asked:
    """Of one scope. `digest` and `fingerprint` are of the last answer that was read."""

    rounds: Rounds[ListProof | None]
    digest: bytes = b""
    fingerprint: int = 0
    refused_until: float = 0.0


class ListProofs:
    """`source` None: nothing can be proved."""

    def __init__(self, freshness: Freshness, source: MetadataSource | None) -> None:
        self._freshness = freshness
        self._source = source
        self._scopes: OrderedDict[ListScope, _Asked] = OrderedDict()

    def stream(self, scope: ListScope) -> Stream | None:
        """The live stream that may answer for the scope, once it is proved; None where upstream is
        to answer itself."""
        streams = self._freshness.streams
        if self._source is None or self._freshness.upstream.is_relayed or not streams.is_up:
            return None
        asked = self._scopes.get(scope)
        if asked is not None and self._freshness.now() < asked.refused_until:
            return None
        stream = streams.at_hand(scope)
        return stream if stream is not None and stream.is_whole else None

    async def prove(self, stream: Stream, scope: ListScope) -> ListProof | None:
        """Of this stream, or of the one that was asked about for all who came at the same time;
        None where upstream is not known to hold the same. Raises `Unreachable`."""
        asked = self._scopes.pop(scope, None) or _Asked(Rounds())
        self._scopes[scope] = asked
        if len(self._scopes) > MAX_SCOPES:
            self._scopes.popitem(last=False)
        return await asked.rounds.answer(partial(self._ask, stream, scope, asked))

    async def _ask(self, stream: Stream, scope: ListScope, asked: _Asked) -> ListProof | None:
        fresh = self._freshness
        if self._source is None or stream.is_dropped:
            return None
        before, cursor = fresh.minimum.of(scope.resource), stream.version
        clock, wall = fresh.clock(), fresh.wall()
        try:
            body = await self._source.metadata(
                scope, header_timeout=fresh.patience(has_answer=True)
            )
            if body is None:
                return None
            listed = read_metadata(body)
        except ApiError as error:
            pause = NO_METADATA_FOR if error.status in NOT_IN_THIS_FORM else FAILED_FOR
            asked.refused_until = fresh.now() + pause
            return None
        except Malformed:
            asked.refused_until = fresh.now() + NO_METADATA_FOR
            return None
        goes_back = listed.version < max(before, cursor)
        try:
            fingerprint = await self._fingerprint(listed, stream, asked, is_needed=goes_back)
        except Malformed:
            asked.refused_until = fresh.now() + NO_METADATA_FOR
            return None
        if stream.scope == scope and fingerprint is not None:
            stream.compare(ListEvidence(listed.version, fingerprint, clock, wall, cursor))
        if goes_back:
            if listed.version < before:
                fresh.streams.stands_at(scope.resource, listed.version)
            return None
        return await self._reached(stream, scope, listed.version, fingerprint)

    async def _fingerprint(
        self, listed: MetadataList, stream: Stream, asked: _Asked, *, is_needed: bool
    ) -> int | None:
        """None where the stream's cursor has come to the list's version before the names were
        needed. Raises `Malformed`."""
        if listed.digest == asked.digest:
            return asked.fingerprint
        if not is_needed and asked.digest:
            is_there = partial(_has_come_to, stream, listed.version)
            if await stream.until(is_there, timeout=EVENT_PATIENCE):
                return None
        if len(stream.collection.objects) > MANY:
            asked.fingerprint = await asyncio.to_thread(listed.fingerprint)
        else:
            asked.fingerprint = listed.fingerprint()
        asked.digest = listed.digest
        return asked.fingerprint

    async def _reached(
        self, stream: Stream, scope: ListScope, version: int, fingerprint: int | None
    ) -> ListProof | None:
        is_equal: Callable[[], bool] = partial(_has_come_to, stream, version)
        if stream.scope != scope and fingerprint is not None:
            is_equal = partial(_holds, stream, scope, version, fingerprint)
        if not await stream.until(is_equal, timeout=EVENT_WAIT):
            return None
        if not stream.is_live():
            return None
        if stream.version < version and fingerprint is not None:
            self._freshness.minimum.listed(scope, version, fingerprint)
        return ListProof(stream, version, stream.turns)


def _has_come_to(stream: Stream, version: int) -> bool:
    return stream.version >= version and stream.collection.is_synced


def _holds(stream: Stream, scope: ListScope, version: int, fingerprint: int) -> bool:
    """Whether the part of its objects that is in the scope is the same."""
    if _has_come_to(stream, version):
        return True
    return stream.collection.is_synced and stream.fingerprint_of(scope) == fingerprint
