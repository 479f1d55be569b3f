"""LIST: from one stream at its cursor, or from upstream, whose answer then begins a stream.

Without a version the answer is upstream's while upstream can be reached (consistent, as
Kubernetes promises), or that of a live stream which upstream's metadata have just confirmed;
version 0 and NotOlderThan come from a stream.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from edge_sidecars.apimachinery.request.request_info import ListOptions
from edge_sidecars.apimachinery.status import Refused, expired, expired_continue, too_large_version
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.streams.list_encoder import ListBody
from relay_sidecar.streams.readiness import NotCached, StreamDenied, UpstreamFailing, ready
from relay_sidecar.streams.stream import Stream
from relay_sidecar.web.reads.freshness import VERSION_WAIT, Freshness
from relay_sidecar.web.reads.list_proofs import ListProofs, MetadataSource
from relay_sidecar.web.reads.selection import (
    ClientRead,
    Selection,
    is_made_here,
    takes_whole,
    view_of,
)
from relay_sidecar.web.reads.upstream_lists import ClientList, UpstreamLists
from relay_sidecar.web.responses import send_list


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
            # The link went a moment ago: what is known stands in for what upstream would say.
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
