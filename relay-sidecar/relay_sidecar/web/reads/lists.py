"""LIST: from one stream at its cursor, or from upstream, whose answer then begins a stream.

Without a version the answer is upstream's while upstream is reachable (consistent, as Kubernetes
promises), or that of a live stream which a list of names and versions has just proved; concurrent
readers of a scope share the next proof. Version 0 and NotOlderThan come from a stream. Guarantee:
what is proved was upstream's state after the reader came.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.request.request_info import ListOptions
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.status import Refused, expired, expired_continue, too_large_version
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.core.stream.lists import (
    NOT_IN_THIS_FORM,
    MetadataList,
    read_metadata,
)
from relay_sidecar.streams.list_encoder import ListBody
from relay_sidecar.streams.stream import Stream
from relay_sidecar.web.reads.freshness import (
    VERSION_WAIT,
    Freshness,
    NotCached,
    StreamDenied,
    UpstreamFailing,
    ready,
)
from relay_sidecar.web.reads.rounds import Rounds
from relay_sidecar.web.reads.selection import (
    ClientRead,
    Selection,
    is_made_here,
    takes_whole,
    view_of,
)
from relay_sidecar.web.reads.upstream_lists import ClientList, UpstreamLists
from relay_sidecar.web.responses import send_list

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


class Lists:
    def __init__(
        self,
        selection: Selection,
        freshness: Freshness,
        *,
        metadata: MetadataSource | None = None,
    ) -> None:
        self._upstream = freshness.upstream
        self._streams = freshness.streams
        self._selection = selection
        self._freshness = freshness
        self._from_upstream = UpstreamLists(freshness)
        self._proofs = ListProofs(freshness, metadata)

    async def answer(self, read: ClientRead, options: ListOptions) -> web.StreamResponse:
        request, wanted = read.request, read.wanted
        scope = await self._selection.scope(read.info, options)
        if scope is not None and read.is_of_node:
            self._streams.of_node.add(scope)
        if scope is None:
            return await self._upstream.forward(request, options.shards)
        listing = ClientList(request, scope, options, wanted)
        if self._asks_upstream(listing):
            answer = await self._newest(listing)
            if answer is not None:
                return answer
        elif self._is_one_question(listing):
            answer = await self._from_upstream.answer(replace(listing, is_of_now=True))
            if answer is not None:
                return answer
        if options.continue_token:
            raise Refused(expired_continue())
        if not takes_whole(wanted):
            raise self._freshness.not_cached(read.info)
        try:
            return await self._from_stream(listing)
        except (StreamDenied, UpstreamFailing):
            # What upstream says to it, this client is to see for itself.
            return await self._upstream.forward(request, options.shards)
        except NotCached:
            if self._upstream.is_relayed:
                return await self._upstream.forward(request, options.shards)
            raise self._freshness.not_cached(read.info) from None

    async def _newest(self, listing: ClientList) -> web.StreamResponse | None:
        """What upstream holds now, from a stream that it has just confirmed, or from upstream. None
        where upstream gives no answer."""
        stream = self._proofs.stream(listing.scope) if self._is_provable(listing) else None
        if stream is None:
            return await self._from_upstream.answer(listing)
        since = self._freshness.clock()
        self._streams.use(stream, now=self._freshness.now())
        try:
            proof = await self._proofs.prove(stream, listing.scope)
        except Unreachable:
            return None
        version = None if proof is None else proof.version
        if proof is None or version is None:
            return await self._from_upstream.answer(listing)
        return await self._send(listing, proof.stream, version, since, stands_in=False)

    def _is_provable(self, listing: ClientList) -> bool:
        """A page of a list is upstream's to cut."""
        return listing.is_latest and not listing.options.limit > 0 and is_made_here(listing.wanted)

    def _asks_upstream(self, listing: ClientList) -> bool:
        options = listing.options
        if options.continue_token or not is_made_here(listing.wanted):
            return True
        return options.resource_version is None and not self._freshness.settings.reads_cache

    def _is_one_question(self, listing: ClientList) -> bool:
        """At any version, by selectors that no client named lately: upstream's answer is kept, and
        no stream is opened for it."""
        if listing.options.resource_version not in (0, None):
            return False
        return self._streams.is_one_question(listing.scope, now=self._freshness.now())

    async def _from_stream(self, listing: ClientList) -> web.StreamResponse:
        scope, asked = listing.scope, listing.options.resource_version
        since = self._freshness.clock()
        if asked and listing.options.is_exact:
            return await self._exactly(listing, asked, since)
        stream = await ready(self._streams, scope, now=self._freshness.now(), since=since)
        is_confirmed = True
        if not stream.is_whole and self._upstream.is_up and not stream.is_stuck:
            with suppress(Unreachable):
                return await self._upstream.forward(listing.request, listing.options.shards)
            is_confirmed = False
        elif not await self._freshness.is_new_enough(stream, scope):
            answer = await self._from_upstream.answer(
                listing, is_last_resort=True, is_stuck=stream.is_stuck
            )
            if answer is not None:
                return answer
            # The link went a moment ago: the cache answers in upstream's place.
            is_confirmed = False
        version = partial(self._freshness.version, stream, scope)
        if asked and not await stream.until(lambda: version() >= asked, timeout=VERSION_WAIT):
            answer = await self._from_upstream.answer(listing, is_last_resort=True)
            if answer is None:
                raise Refused(too_large_version(asked, version()))
            return answer
        stands_in = self._asks_upstream(listing) or not is_confirmed
        return await self._send(listing, stream, version(), since, stands_in=stands_in)

    async def _exactly(self, listing: ClientList, version: int, since: float) -> web.StreamResponse:
        for stream in self._streams.covering(listing.scope):
            known = self._freshness.version(stream, listing.scope)
            if version in (stream.collection.cursor, stream.version, known):
                stands_in = self._asks_upstream(listing)
                return await self._send(listing, stream, version, since, stands_in=stands_in)
        if self._upstream.is_up:
            return await self._upstream.forward(listing.request, listing.options.shards)
        raise Refused(expired())

    async def _send(
        self,
        listing: ClientList,
        stream: Stream,
        version: int,
        since: float,
        *,
        stands_in: bool,
    ) -> web.StreamResponse:
        """`version`: the stream's, or another at which its objects are the same; `stands_in`: for
        upstream's answer, which was wanted."""
        scope = listing.scope
        self._freshness.handed_out(scope.resource, version, scope)
        view = view_of(stream, scope, listing.wanted, listing.options.shards)
        if version == stream.version:
            body = stream.body(view)
        else:
            body = ListBody(
                stream.items(),
                view,
                kind=stream.list_kind,
                api_version=stream.api_version,
                version=version,
            )
        headers = self._freshness.age(stream, since=since, stands_in=stands_in)
        return await send_list(listing.request, body, headers)
