"""GET of one object: the newest state that the relay has seen, or upstream's answer.

Absence is answered only from a stream that would have the object; what is merely unknown is 503
while upstream is out of reach (promise R6: kubelet would end a pod over a 404).
"""

import math
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final

from edge_sidecars.apimachinery.objects import Item, Malformed, is_whole, read_item
from edge_sidecars.apimachinery.request.accept import accept_header
from edge_sidecars.apimachinery.resource_version import metadata_only, response_version
from edge_sidecars.apimachinery.status import Refused, is_status, not_found, too_large_version
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.caching import AGE, FRESH, Staleness
from relay_sidecar.core.link import is_failure
from relay_sidecar.streams.stream import Stream
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest
from relay_sidecar.web.reads.freshness import Freshness
from relay_sidecar.web.reads.rounds import Rounds
from relay_sidecar.web.reads.selection import (
    ClientRead,
    by_name,
    is_made_here,
    key_of,
    metadata_version,
    newest_target,
    takes_whole,
)
from relay_sidecar.web.responses import JSON, status_answer

# Seconds; a cache of kube-apiserver's is behind by less, or it says that it is not ready.
UPSTREAM_LAG: Final = 60.0


class Gets:
    def __init__(self, freshness: Freshness) -> None:
        self._upstream = freshness.upstream
        self._streams = freshness.streams
        self._freshness = freshness
        # By question, while it is asked.
        self._rounds: dict[Hashable, Rounds[BufferedResponse | None]] = {}

    async def answer(self, read: ClientRead, version: int | None) -> web.StreamResponse:
        """`version`: at least that one, 0 for any, None for the newest."""
        if is_made_here(read.wanted) and (
            version is not None or self._freshness.settings.reads_cache
        ):
            answer = await self._from_live_stream(read, version or 0)
            if answer is not None:
                return answer
        if self._upstream.is_up:
            answer = await self._from_upstream(read, version)
            if answer is not None:
                return answer
        return self._from_what_is_known(read, version or 0)

    async def _from_live_stream(self, read: ClientRead, at_least: int) -> web.StreamResponse | None:
        """None where upstream has to be asked, or nothing is live."""
        scope = by_name(read.info)
        stream = self._streams.at_hand(scope)
        if stream is None:
            return await self._held_live(read, at_least)
        if not stream.is_live():
            return None
        if not await self._freshness.is_new_enough(stream, scope, is_of_one=True):
            return None
        if not stream.is_live():  # the link went meanwhile
            return None
        stream.used_at = self._freshness.now()
        known = self._streams.newest(read.resource, key_of(read.info))
        lacking = self._streams.lacking(scope, key_of(read.info))
        if lacking is not None and (known is None or lacking.version > known[0].version):
            if lacking.version < at_least or not lacking.is_live():
                return None
            return self._absent(read, FRESH)
        if known is None or max(known[0].version, stream.version) < at_least:
            return None
        return self._present(known[0], read, FRESH)

    async def _held_live(self, read: ClientRead, at_least: int) -> web.StreamResponse | None:
        """A live stream of some objects has this one among them."""
        known = self._streams.newest(read.resource, key_of(read.info))
        if known is None or not isinstance(known[1], Stream):
            return None
        stream, scope = known[1], by_name(read.info)
        if not stream.is_live():
            return None
        if not await self._freshness.is_new_enough(stream, scope, is_of_one=True):
            return None
        # What was waited for may have taken the object out of the stream.
        known = self._streams.newest(read.resource, key_of(read.info))
        if known is None or known[1] is not stream or known[0].version < at_least:
            return None
        if not stream.is_live():
            return None
        stream.used_at = self._freshness.now()
        return self._present(known[0], read, FRESH)

    async def _from_upstream(
        self, read: ClientRead, version: int | None
    ) -> web.StreamResponse | None:
        """Equal GETs at once are one question to upstream."""
        target, since = None, self._freshness.clock() - UPSTREAM_LAG
        if self._freshness.minimum.has_changed(read.resource, key_of(read.info), since=since):
            # Upstream's own cache may not have come to the write yet.
            target, version = newest_target(read.request.raw_path), None
        accept = accept_header(read.wanted, is_list=False)
        # Upstream takes its time over a version that it has yet to reach.
        known = self._streams.newest(read.resource, key_of(read.info))
        is_known = not version and known is not None
        patience = self._freshness.patience(has_answer=is_known)
        asked = ClientRequest(read.request, accept, patience, target)
        key = self._upstream.question(asked)
        rounds = self._rounds.get(key)
        if rounds is None:
            rounds = self._rounds[key] = Rounds()
        try:
            fetched = await rounds.answer(partial(self._ask, read, asked, version, is_known))
        finally:
            if rounds.is_idle:
                self._rounds.pop(key, None)
        return None if fetched is None else await fetched.send(read.request)

    async def _ask(
        self, read: ClientRead, asked: ClientRequest, version: int | None, is_known: bool
    ) -> BufferedResponse | None:
        asked_at, asked_clock = self._freshness.wall(), self._freshness.clock()
        try:
            fetched = await self._upstream.fetch(asked)
        except Unreachable:
            return None
        known = self._streams.newest(read.resource, key_of(read.info)) if is_known else None
        if known is not None and is_failure(
            fetched.status,
            fetched.headers,
            fetched.content,
            is_followed=isinstance(known[1], Stream) and known[1].is_started,
        ):
            return None
        if self._is_behind(read, fetched):
            return None
        if version is not None and self._is_older(read, fetched):
            # Its cache has not come to what was handed out.
            newest = replace(asked, target=newest_target(read.request.raw_path))
            return await self._ask(read, newest, None, is_known)
        # With a version, upstream answers from its cache, which may lag.
        await self._take_in(read, fetched, asked_at if version is None else -math.inf)
        if asked.target is not None:
            self._saw_newest(read, fetched, asked_clock)
        return fetched

    def _saw_newest(self, read: ClientRead, fetched: BufferedResponse, asked_at: float) -> None:
        """An object that a write has changed, as it has been at that time (boot clock) or later."""
        if fetched.status != HTTPStatus.OK or _staleness(fetched).is_old:
            return
        version = response_version(fetched.content, read.wanted.form, is_list=False)
        if version is not None:
            key = key_of(read.info)
            self._freshness.minimum.seen(read.resource, key, version, asked_at=asked_at)

    async def _take_in(self, read: ClientRead, fetched: BufferedResponse, asked_at: float) -> None:
        """What upstream answered to who asked for the newest at that wall time."""
        if await self._learn_from(read, fetched, asked_at) or fetched.status != HTTPStatus.OK:
            return
        version = response_version(fetched.content, read.wanted.form, is_list=False)
        if version is None:
            return
        self._freshness.handed_out(read.resource, version)
        if not self._is_at_hand(read, version):
            path = read.request.raw_path.partition("?")[0]
            learn = partial(self._learn_from, read)
            self._freshness.whole.want(read.resource, by_name(read.info), read.request, path, learn)

    async def _learn_from(
        self, read: ClientRead, fetched: BufferedResponse, asked_at: float
    ) -> bool:
        """Whether it was the object itself: a server need not give the form that was asked for, so
        that the answer says what it is."""
        content_type = fetched.headers.get("Content-Type", "")
        if fetched.status == HTTPStatus.NOT_FOUND and is_status(content_type, fetched.content):
            await self._freshness.forget(read.resource, key_of(read.info))
        if fetched.status != HTTPStatus.OK:
            return False
        known = self._streams.newest(read.resource, key_of(read.info))
        if known is not None and known[0].raw == fetched.content.removesuffix(b"\n"):
            item = known[0]
        else:
            try:
                item = read_item(fetched.content)
            except Malformed:
                return False
            if not is_whole(item.raw):
                return False
        staleness = _staleness(fetched)
        if known is None or item.key != key_of(read.info):
            known = self._streams.newest(read.resource, item.key)
        asked_at = -math.inf if staleness.is_old else asked_at
        await self._learn(read, item, known, asked_at=asked_at, age=staleness.seconds)
        return True

    def _is_at_hand(self, read: ClientRead, version: int) -> bool:
        """Whether the object is known at this version, or a stream will bring it."""
        known = self._streams.newest(read.resource, key_of(read.info))
        is_known = known is not None and known[0].version >= version
        return is_known or any(it.is_live() for it in self._streams.covering(by_name(read.info)))

    def _is_behind(self, read: ClientRead, fetched: BufferedResponse) -> bool:
        """A relay that is cut off itself answers with an older state than is known here, and can be
        shown."""
        if fetched.status != HTTPStatus.OK or not _staleness(fetched).is_old:
            return False
        version = response_version(fetched.content, read.wanted.form, is_list=False)
        if version is None or not takes_whole(read.wanted):
            return False
        key = key_of(read.info)
        known = self._streams.newest(read.resource, key)
        lacking = self._streams.lacking(by_name(read.info), key)
        return version < max(
            0 if known is None else known[0].version, 0 if lacking is None else lacking.version
        )

    def _is_older(self, read: ClientRead, fetched: BufferedResponse) -> bool:
        """Whether upstream's cache shows less than what was handed out of the object."""
        if _staleness(fetched).is_old:
            return False
        version: int | None = 0
        if fetched.status == HTTPStatus.OK:
            version = response_version(fetched.content, read.wanted.form, is_list=False)
        elif fetched.status != HTTPStatus.NOT_FOUND:
            return False
        if version is None:
            return False
        key = key_of(read.info)
        known = self._streams.newest(read.resource, key)
        is_behind = known is not None and version < known[0].version
        return is_behind or self._freshness.minimum.is_older(read.resource, key, version)

    async def _learn(
        self,
        read: ClientRead,
        item: Item,
        known: tuple[Item, Stream | float] | None,
        *,
        asked_at: float,
        age: float,
    ) -> None:
        """What a live stream holds already need not be remembered apart from it. `known`: what is
        known of the object."""
        if (
            known is not None
            and isinstance(known[1], Stream)
            and known[0].version == item.version
            and known[1].is_live()
        ):
            self._freshness.handed_out(read.resource, item.version, item)
        else:
            await self._freshness.remember(
                read.resource,
                item,
                asked_at=asked_at,
                age=age,
                is_of_node=read.is_of_node,
            )

    def _from_what_is_known(self, read: ClientRead, at_least: int) -> web.StreamResponse:
        known = self._streams.newest(read.resource, key_of(read.info))
        lacking = self._streams.lacking(by_name(read.info), key_of(read.info))
        newest = self._reached(read, known)
        if newest and newest < at_least:
            raise Refused(too_large_version(at_least, newest))
        if lacking is not None and (known is None or lacking.version > known[0].version):
            return self._absent(read, self._freshness.since(lacking.as_of))
        if known is None or not takes_whole(read.wanted):
            raise self._freshness.not_cached(read.info)
        item, source = known
        if isinstance(source, Stream):
            source = source.as_of
        return self._present(item, read, self._freshness.since(source))

    def _reached(self, read: ClientRead, known: tuple[Item, Stream | float] | None) -> int:
        """Up to which version what is known of the object is known to hold."""
        versions = [stream.version for stream in self._streams.covering(by_name(read.info))]
        return max(0 if known is None else known[0].version, *versions, 0)

    def _present(self, item: Item, read: ClientRead, staleness: Staleness) -> web.Response:
        self._freshness.handed_out(read.resource, item.version, item)
        raw = item.raw
        projected_to = metadata_version(read.wanted)
        if projected_to is not None:
            raw = metadata_only(raw, projected_to)
        return web.Response(body=raw + b"\n", headers={**JSON, **self._age(staleness)})

    def _absent(self, read: ClientRead, staleness: Staleness) -> web.Response:
        status = not_found(read.resource.plural, read.info.name, group=read.resource.group)
        return status_answer(status, self._age(staleness))

    def _age(self, staleness: Staleness) -> dict[str, str]:
        return staleness.headers(now=self._freshness.wall())


def _staleness(fetched: BufferedResponse) -> Staleness:
    """Of an answer of upstream, which may be another relay's."""
    return Staleness.read(fetched.headers.get(AGE))
