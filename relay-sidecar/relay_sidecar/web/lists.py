"""LIST: from one stream at its cursor, or from upstream, whose answer then begins a stream.

Without a version the answer is upstream's while upstream can be reached (consistent, as
Kubernetes promises); version 0 and NotOlderThan come from a stream.
"""

import math
from contextlib import suppress

from msgspec import Struct

from edge_sidecars.apimachinery.objects import Malformed, read_page, read_table_versions
from edge_sidecars.apimachinery.request_info import (
    Form,
    ListOptions,
    Representation,
    RequestInfo,
    VersionMatch,
)
from edge_sidecars.apimachinery.resource_version import version_at_head
from edge_sidecars.apimachinery.resources import known_fields
from edge_sidecars.apimachinery.scope import Scope
from edge_sidecars.apimachinery.status import Refused, expired, expired_continue, too_large_version
from edge_sidecars.apimachinery.store import fingerprint_of
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.answer_age import told_age
from relay_sidecar.core.catch_up import ListEvidence
from relay_sidecar.core.link import NOBODY_THERE
from relay_sidecar.streams.list_encoder import Comparison, ListBody
from relay_sidecar.streams.readiness import NotCached, StreamDenied, UpstreamFailing, ready
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.view import StreamView
from relay_sidecar.upstream.buffered_response import BufferedResponse
from relay_sidecar.upstream.streaming import PATIENCE
from relay_sidecar.web.list_pages import PageSets
from relay_sidecar.web.read_context import (
    VERSION_WAIT,
    Reading,
    accept_upstream,
    is_made_here,
    takes_whole,
)
from relay_sidecar.web.responses import send_list


class _Asked(Struct, frozen=True):
    """When upstream was asked for a list, by the clock that nobody sets and as wall time; where the
    stream of the list stood, and the floor."""

    at: float
    at_wall: float
    version: int
    floor: int


class Lists:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._pages = PageSets()

    async def answer(
        self,
        request: web.BaseRequest,
        info: RequestInfo,
        options: ListOptions,
        wanted: Representation,
    ) -> web.StreamResponse:
        scope = await self._reading.scope(info, options)
        if scope is None:
            return await self._reading.above.forward(request)
        if self._asks_upstream(options, wanted):
            answer = await self._from_upstream(request, scope, options, wanted)
            if answer is not None:
                return answer
        if options.continue_token:
            raise Refused(expired_continue())
        if not takes_whole(wanted):
            raise self._reading.unreachable()
        try:
            return await self._from_stream(request, scope, options, wanted)
        except (StreamDenied, UpstreamFailing):
            # What upstream says to it, this client is to see for itself.
            return await self._reading.above.forward(request)
        except NotCached:
            if self._reading.above.is_relayed:
                return await self._reading.above.forward(request)
            raise self._reading.unreachable() from None

    def _asks_upstream(self, options: ListOptions, wanted: Representation) -> bool:
        if options.continue_token or not is_made_here(wanted):
            return True
        return options.resource_version is None and not self._reading.settings.reads_cache

    # ── upstream ──

    async def _from_upstream(
        self,
        request: web.BaseRequest,
        scope: Scope,
        options: ListOptions,
        wanted: Representation,
        *,
        is_last_resort: bool = False,
    ) -> web.StreamResponse | None:
        """None where upstream did not answer and nothing was sent. `is_last_resort`: what is kept
        here has been found wanting."""
        reading = self._reading
        if not reading.above.is_up:
            return None
        asked = self._asked(scope)
        has_cache = (
            not is_last_resort
            and not options.continue_token
            and takes_whole(wanted)
            and bool(reading.streams.covering(scope))
        )
        patience = reading.patience(has_answer=has_cache)
        passing = None if is_last_resort else self._passing(scope, wanted, asked)
        try:
            if passing is not None:
                answer = await reading.above.stream(
                    request,
                    accept=accept_upstream(wanted, is_list=True),
                    header_timeout=patience,
                    idle_timeout=PATIENCE,
                    may_pass=passing.may_pass,
                    passed=passing.more,
                )
                if not isinstance(answer, BufferedResponse):
                    if _is_latest(options) and "Age" not in answer.headers:
                        passing.end()
                    return answer
                fetched = answer
            else:
                fetched = await reading.above.fetch(
                    request,
                    accept=accept_upstream(wanted, is_list=True),
                    header_timeout=patience,
                )
        except Unreachable:
            return None
        if fetched.status in NOBODY_THERE and has_cache:
            return None
        if fetched.status == 200:
            with suppress(Refused):  # what there is no room for is passed on all the same
                await self._learn(fetched, scope, options, wanted, asked)
        return await fetched.send(request)

    def _asked(self, scope: Scope) -> _Asked:
        reading = self._reading
        stream = reading.streams.exactly(scope)
        version = 0 if stream is None else stream.version
        return _Asked(reading.clock(), reading.wall(), version, reading.floor.of(scope.resource))

    def _passing(self, scope: Scope, wanted: Representation, asked: _Asked) -> "_Passing | None":
        """Where a live stream knows already what upstream will tell. Not for custom resources,
        whose lists tell their version at the end."""
        reading = self._reading
        if wanted.form is Form.OTHER or known_fields(scope.resource) is None:
            return None
        stream = reading.streams.at_hand(scope)
        if stream is None or not reading.streams.is_live(stream):
            return None
        reading.streams.use(stream, now=reading.now())
        is_same = wanted.form is Form.WHOLE and stream.scope == scope
        return _Passing(reading, scope, stream if is_same else None, asked)

    async def _learn(
        self,
        fetched: BufferedResponse,
        scope: Scope,
        options: ListOptions,
        wanted: Representation,
        asked: _Asked,
    ) -> None:
        """What was handed out, and the stream that begins from it."""
        reading = self._reading
        body = fetched.content
        if wanted.form is Form.OTHER:
            reading.passed_on(scope.resource, body, wanted, is_list=True)
            return
        try:
            is_table = wanted.form is Form.TABLE
            page = read_table_versions(body) if is_table else read_page(body)
        except Malformed:
            return
        # Another relay tells how old its answer is; pages and lists from a version are not of now.
        is_latest = _is_latest(options)
        is_of_now = is_latest and "Age" not in fetched.headers
        if is_of_now and page.version < asked.floor:
            reading.streams.reflectors.stands_at(scope.resource, page.version)
        reading.handed_out(scope.resource, page.version)
        whole = self._pages.joined(scope, wanted.form, options.continue_token, page)
        if whole is None:
            reading.streams.open(scope, now=reading.now())
            return
        fingerprint = fingerprint_of(whole.items)
        reading.floor.listed(scope, whole.version, fingerprint)
        stream = reading.streams.exactly(scope)
        if stream is not None and is_of_now:
            told = ListEvidence(whole.version, fingerprint, asked.at, asked.at_wall, asked.version)
            reading.streams.reflectors.told(stream, told)
        if wanted.form is Form.WHOLE:
            known_at = asked.at if is_of_now else -math.inf
            at = asked.at_wall - told_age(fetched.headers.get("Age")) if is_latest else 0.0
            begun = reading.streams.seed(scope, whole, known_at=known_at, at=at, now=reading.now())
            if begun is not None:
                await reading.journal.list_replaced(begun, whole, at=begun.confirmed_at)
        else:
            reading.streams.open(scope, now=reading.now())

    # ── streams ──

    async def _from_stream(
        self, request: web.BaseRequest, scope: Scope, options: ListOptions, wanted: Representation
    ) -> web.StreamResponse:
        reading = self._reading
        asked, since = options.resource_version, reading.clock()
        stands_in = self._asks_upstream(options, wanted)
        if options.match is VersionMatch.EXACT and asked:
            stream = self._at_exactly(scope, asked)
            if stream is None and reading.above.is_up:
                return await reading.above.forward(request)
            if stream is None:
                raise Refused(expired())
            return await self._send(
                request, stream, scope, wanted, since, stands_in=stands_in, version=asked
            )
        stream = await ready(reading.streams, scope, now=reading.now(), since=since)
        if not await reading.is_new_enough(stream, scope):
            answer = await self._from_upstream(request, scope, options, wanted, is_last_resort=True)
            if answer is None:
                raise reading.unreachable()
            return answer
        if asked and not await stream.until(lambda: stream.version >= asked, timeout=VERSION_WAIT):
            answer = await self._from_upstream(request, scope, options, wanted, is_last_resort=True)
            if answer is None:
                raise Refused(too_large_version(asked, stream.version))
            return answer
        return await self._send(request, stream, scope, wanted, since, stands_in=stands_in)

    def _at_exactly(self, scope: Scope, version: int) -> Stream | None:
        found = self._reading.streams.covering(scope)
        return next((s for s in found if version in (s.collection.cursor, s.version)), None)

    async def _send(
        self,
        request: web.BaseRequest,
        stream: Stream,
        scope: Scope,
        wanted: Representation,
        since: float,
        *,
        stands_in: bool,
        version: int | None = None,
    ) -> web.StreamResponse:
        """`version`: another than the newest at which the stream's objects are the same."""
        reading = self._reading
        reading.handed_out(scope.resource, stream.version if version is None else version)
        view = reading.view(stream, scope, wanted)
        if version is None or version == stream.version:
            body = stream.body(view)
        else:
            body = ListBody(
                stream.items(),
                view,
                kind=stream.list_kind,
                api_version=stream.api_version,
                version=version,
            )
        headers = reading.age(stream, since=since, stands_in=stands_in)
        return await send_list(request, body, headers)


def _is_latest(options: ListOptions) -> bool:
    return options.resource_version is None and not options.continue_token


class _Passing:
    """A list on its way from upstream to a client, of which only the version is read: the floor,
    before anything of it is handed on. Compared with what `stream`, of the same scope, holds: one
    that is equal is as new, though its cursor may be told so much later."""

    def __init__(
        self, reading: Reading, scope: Scope, stream: Stream | None, asked: _Asked
    ) -> None:
        self._reading = reading
        self._asked = asked
        self._scope = scope
        self._stream = stream
        self._fingerprint = 0
        self._version = 0
        self._comparison: Comparison | None = None

    def may_pass(self, begun: bytes) -> bool:
        version = version_at_head(begun)
        # A version that goes back is one to learn from: upstream may have been restored.
        if version is None or version < self._asked.floor:
            return False
        self._version = version
        self._reading.handed_out(self._scope.resource, version)
        stream = self._stream
        if stream is not None and stream.collection.cursor < version:
            self._fingerprint = stream.collection.fingerprint
            self._comparison = Comparison(stream.body(StreamView()))
        return True

    def more(self, passed: bytes) -> None:
        if self._comparison is not None:
            self._comparison.more(passed)

    def end(self) -> None:
        """All of it was handed on, and it is of now."""
        stream, asked = self._stream, self._asked
        if stream is None or self._comparison is None or not self._comparison.is_equal:
            return
        self._reading.floor.listed(self._scope, self._version, self._fingerprint)
        told = ListEvidence(
            self._version, self._fingerprint, asked.at, asked.at_wall, asked.version
        )
        self._reading.streams.reflectors.told(stream, told)
