"""LIST: from one stream at its cursor, or from upstream, whose answer then begins a stream.

Without a version the answer is upstream's while upstream can be reached (consistent, as
Kubernetes promises); version 0 and NotOlderThan come from a stream.
"""

from contextlib import suppress

from kubeapi import Unreachable
from relay_sidecar.core.link import NOBODY_THERE
from relay_sidecar.core.objects import Malformed, read_page, read_table_versions
from relay_sidecar.core.request import (
    Form,
    ListOptions,
    Representation,
    RequestInfo,
    VersionMatch,
)
from relay_sidecar.core.scope import Scope
from relay_sidecar.core.status import Refused, expired, expired_continue, too_large_version
from relay_sidecar.core.store import fingerprint_of
from relay_sidecar.proxy import Fetched, answer_of
from relay_sidecar.stream import Stream
from relay_sidecar.streams import Denied, Failing, Unknown
from relay_sidecar.web.answers import send_list
from relay_sidecar.web.pages import PageSets
from relay_sidecar.web.reading import (
    VERSION_WAIT,
    Reading,
    accept_upstream,
    is_made_here,
    takes_whole,
)
from sidecar.web import aiohttp_web as web


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
        except (Denied, Failing):
            # What upstream says to it, this client is to see for itself.
            return await self._reading.above.forward(request)
        except Unknown:
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
        has_cache = (
            not is_last_resort
            and not options.continue_token
            and takes_whole(wanted)
            and bool(reading.streams.covering(scope))
        )
        try:
            fetched = await reading.above.fetch(
                request,
                accept=accept_upstream(wanted, is_list=True),
                header_timeout=reading.patience(has_answer=has_cache),
            )
        except Unreachable:
            return None
        if fetched.status in NOBODY_THERE and has_cache:
            return None
        if fetched.status == 200:
            with suppress(Refused):  # what there is no room for is passed on all the same
                await self._learn(fetched, scope, options, wanted)
        return await answer_of(request, fetched)

    async def _learn(
        self, fetched: Fetched, scope: Scope, options: ListOptions, wanted: Representation
    ) -> None:
        """What was handed out, and the stream that begins from it."""
        reading = self._reading
        body = fetched.decoded()
        if wanted.form is Form.OTHER:
            reading.passed_on(scope.resource, body, wanted, is_list=True)
            return
        try:
            is_table = wanted.form is Form.TABLE
            page = read_table_versions(body) if is_table else read_page(body)
        except Malformed:
            return
        reading.handed_out(scope.resource, page.version)
        whole = self._pages.joined(scope, wanted.form, options.continue_token, page)
        if whole is None:
            reading.streams.open(scope, now=reading.now())
            return
        reading.floor.listed(scope, whole.version, fingerprint_of(whole.items))
        if wanted.form is Form.WHOLE:
            begun = reading.streams.seed(scope, whole, at=reading.wall(), now=reading.now())
            if begun is not None:
                await reading.memory.replaced(begun, whole)
        else:
            reading.streams.open(scope, now=reading.now())

    # ── streams ──

    async def _from_stream(
        self, request: web.BaseRequest, scope: Scope, options: ListOptions, wanted: Representation
    ) -> web.StreamResponse:
        reading = self._reading
        asked = options.resource_version
        stands_in = self._asks_upstream(options, wanted)
        if options.match is VersionMatch.EXACT and asked:
            stream = self._at_exactly(scope, asked)
            if stream is None and reading.above.is_up:
                return await reading.above.forward(request)
            if stream is None:
                raise Refused(expired())
            return await self._send(request, stream, scope, wanted, stands_in=stands_in)
        stream = await reading.streams.ready(scope, now=reading.now())
        if not await reading.is_new_enough(stream, scope):
            answer = await self._from_upstream(request, scope, options, wanted, is_last_resort=True)
            if answer is None:
                raise reading.unreachable()
            return answer
        if asked and not await stream.until(
            lambda: stream.collection.cursor >= asked, timeout=VERSION_WAIT
        ):
            answer = await self._from_upstream(request, scope, options, wanted, is_last_resort=True)
            if answer is None:
                raise Refused(too_large_version(asked, stream.collection.cursor))
            return answer
        return await self._send(request, stream, scope, wanted, stands_in=stands_in)

    def _at_exactly(self, scope: Scope, version: int) -> Stream | None:
        found = self._reading.streams.covering(scope)
        return next((s for s in found if s.collection.cursor == version), None)

    async def _send(
        self,
        request: web.BaseRequest,
        stream: Stream,
        scope: Scope,
        wanted: Representation,
        *,
        stands_in: bool,
    ) -> web.StreamResponse:
        reading = self._reading
        reading.handed_out(scope.resource, stream.collection.cursor)
        body = stream.body(reading.view(stream, scope, wanted))
        return await send_list(request, body, reading.age(stream, stands_in=stands_in))
