"""LIST, answered by upstream: as it comes where a live stream has its objects, else read here.

What upstream answers is learned from: a whole list begins a stream, or confirms one. So do lists
that clients read page by page, put together again.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import ParamSpec, TypeVar
from urllib.parse import urlencode

from edge_sidecars.apimachinery.objects import (
    META_GROUP,
    Item,
    Malformed,
    Page,
    read_page,
    read_table_versions,
)
from edge_sidecars.apimachinery.request.accept import accept_header
from edge_sidecars.apimachinery.request.request_info import Form, ListOptions, Representation
from edge_sidecars.apimachinery.resource_version import response_version, version_at_head
from edge_sidecars.apimachinery.resources import known_fields
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.store import fingerprint_of
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.caching import AGE, Staleness
from relay_sidecar.core.link import is_failure, is_of_gateway
from relay_sidecar.core.sharding import upstream_target
from relay_sidecar.core.stream.commands import ListEvidence
from relay_sidecar.streams.fanout import StreamView
from relay_sidecar.streams.list_encoder import Comparison
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import list_records
from relay_sidecar.streams.streams import NoRoom
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest
from relay_sidecar.upstream.sharded import list_in_shards
from relay_sidecar.upstream.streaming import LONG
from relay_sidecar.web.reads.freshness import Freshness
from relay_sidecar.web.reads.selection import takes_whole

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Sets and bytes that may be under way at once; beyond, the oldest is given up: its stream then
# begins with a list of its own.
MAX_SETS = 8
MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClientList:
    """A client's LIST; `is_of_now`: upstream is asked for all objects as they are now, whatever
    version or limit the client named."""

    request: web.BaseRequest
    scope: ListScope
    options: ListOptions
    wanted: Representation
    is_of_now: bool = False

    @property
    def target(self) -> str | None:
        """What upstream is asked for instead: all shards, so that its answer is learned from."""
        if self.is_of_now:
            return whole_target(self.scope)
        if self.options.shards.is_everything:
            return None
        return upstream_target(self.request.raw_path)

    @property
    def is_latest(self) -> bool:
        """Pages, and lists from a version, are not of now."""
        is_any = self.options.resource_version is not None or self.options.continue_token
        return self.is_of_now or not is_any


@dataclass(frozen=True, slots=True)
class _Before:
    """As upstream was asked for a list: the time by the clock that is never set and as wall time,
    the version of the list's stream, and the minimum."""

    clock: float
    wall: float
    version: int
    minimum: int

    def evidence(self, version: int, fingerprint: int) -> ListEvidence:
        return ListEvidence(version, fingerprint, self.clock, self.wall, self.version)


class UpstreamLists:
    def __init__(self, freshness: Freshness) -> None:
        self._upstream = freshness.upstream
        self._streams = freshness.streams
        self._freshness = freshness
        self._pages = PageSets()
        self._streams.beside.append(lambda: self._pages.size)
        self._streams.passing.append(self._pages.give_up)

    async def answer(
        self, listing: ClientList, *, is_last_resort: bool = False, is_stuck: bool = False
    ) -> web.StreamResponse | None:
        """None where upstream did not answer and nothing was sent. `is_last_resort`: what is cached
        was not enough; `is_stuck`: it would do where upstream fails, as it does its stream."""
        if not self._upstream.is_up:
            return None
        if not listing.options.continue_token:
            self._streams.askings.asked(listing.scope, now=self._freshness.now())
        before = self._before(listing.scope)
        is_kept = (
            not listing.options.continue_token
            and takes_whole(listing.wanted)
            and bool(self._streams.covering(listing.scope))
        )
        has_cache = is_kept and (is_stuck or not is_last_resort)
        patience = self._freshness.patience(has_answer=has_cache)
        streamed = None if is_last_resort else self._streamed(listing, before)
        try:
            answer = await self._ask(listing, streamed, patience)
        except Unreachable:
            return None
        if not isinstance(answer, BufferedResponse):
            if streamed is not None and listing.is_latest and AGE not in answer.headers:
                streamed.end()
            return answer
        is_followed = any(it.is_started for it in self._streams.covering(listing.scope))
        if is_kept and is_of_gateway(answer.status, answer.headers):
            return None
        if has_cache and (
            is_failure(answer.status, answer.headers, answer.content, is_followed=is_followed)
            or self._is_behind(listing, answer)
        ):
            return None
        if answer.status == HTTPStatus.OK:
            with suppress(NoRoom):  # what there is no room for is passed on all the same
                await self._learn(listing, answer, before)
        answer = await list_in_shards(answer, listing.request, listing.options.shards)
        return await answer.send(listing.request)

    def _is_behind(self, listing: ClientList, answer: BufferedResponse) -> bool:
        """A relay that is cut off itself answers with less than is cached here: what it passed on
        it need not have learned."""
        if AGE not in answer.headers or answer.status != HTTPStatus.OK:
            return False
        version = response_version(answer.content, listing.wanted.form, is_list=True)
        newest = self._streams.covering(listing.scope)[0]
        return version is not None and version < newest.version

    async def _ask(
        self, listing: ClientList, streamed: "_StreamedList | None", patience: float
    ) -> web.StreamResponse | BufferedResponse:
        accept = accept_header(listing.wanted, is_list=True)
        asked = ClientRequest(listing.request, accept, patience, listing.target)
        if streamed is None:
            return await self._upstream.fetch(asked)
        return await self._upstream.stream(asked, streamed)

    def _before(self, scope: ListScope) -> _Before:
        stream = self._streams.exactly(scope)
        fresh = self._freshness
        return _Before(
            fresh.clock(),
            fresh.wall(),
            0 if stream is None else stream.version,
            fresh.minimum.of(scope.resource),
        )

    def _streamed(self, listing: ClientList, before: _Before) -> "_StreamedList | None":
        """Where a live stream knows already what upstream will answer. Not for custom resources,
        whose lists have their version at the end, nor for shards, to which the answer is reduced.
        """
        scope, form = listing.scope, listing.wanted.form
        if form is Form.OTHER or known_fields(scope.resource) is None:
            return None
        if not listing.options.shards.is_everything:
            return None
        stream = self._streams.at_hand(scope)
        if stream is None or not stream.is_live():
            return None
        self._streams.use(stream, now=self._freshness.now())
        is_same = form is Form.WHOLE and stream.scope == scope
        return _StreamedList(self._freshness, scope, stream if is_same else None, before)

    async def _learn(self, listing: ClientList, answer: BufferedResponse, before: _Before) -> None:
        """What is handed out, and the stream that begins from it."""
        scope, fresh = listing.scope, self._freshness
        form, page = await _beside(len(answer.content), _read, answer.content, listing.wanted.form)
        if form is Form.OTHER or (form is Form.TABLE and page is None):
            fresh.passed_on(scope.resource, answer.content, listing.wanted, is_list=True)
            # Of its stream, which asks for JSON, others are answered.
            self._open(listing)
        if page is None:
            return
        # Another relay says in Age how old its answer is.
        staleness = Staleness.read(answer.headers.get(AGE))
        is_of_now = listing.is_latest and not staleness.is_old
        if is_of_now and page.version < before.minimum:
            self._streams.stands_at(scope.resource, page.version)
        fresh.handed_out(scope.resource, page.version, scope)
        whole = self._pages.joined(scope, form, listing.options.continue_token, page)
        if whole is None:
            self._open(listing)
            return
        stream = self._streams.exactly(scope)
        if not whole.unreadable:
            size = sum(len(item.raw) for item in whole.items)
            fingerprint = await _beside(size, fingerprint_of, whole.items)
            fresh.minimum.listed(scope, whole.version, fingerprint)
            if stream is not None and is_of_now:
                evidence = before.evidence(whole.version, fingerprint)
                stream.compare(evidence)
        if form is not Form.WHOLE or (whole.unreadable and not whole.items):
            self._open(listing)
            return
        at = before.wall - staleness.seconds if listing.is_latest else 0.0
        await self._seed(scope, whole, known_at=before.clock if is_of_now else -math.inf, at=at)

    def _open(self, listing: ClientList) -> None:
        """The stream of what upstream answered in a form that is not kept, or the answer itself, in
        JSON, where that is not worth one. Raises `NoRoom`."""
        scope, now = listing.scope, self._freshness.now()
        if self._streams.refusal(scope, now=now) is not None:
            return
        if self._streams.askings.are_worth_a_stream(scope):
            self._streams.open(scope, now=now)
        elif not self._streams.covering(scope):
            learn = partial(self._learn_whole, scope, self._freshness.clock())
            target = whole_target(scope)
            self._freshness.whole.want(scope.resource, scope, listing.request, target, learn)

    async def _learn_whole(
        self, scope: ListScope, known_at: float, answer: BufferedResponse, asked_at: float
    ) -> None:
        form, page = _read(answer.content, Form.WHOLE)
        if answer.status != HTTPStatus.OK or page is None or form is not Form.WHOLE:
            return
        if not page.continue_token and (page.items or not page.unreadable):
            staleness = Staleness.read(answer.headers.get(AGE))
            with suppress(NoRoom):
                at = -math.inf if staleness.is_old else known_at
                await self._seed(scope, page, known_at=at, at=asked_at - staleness.seconds)

    async def _seed(self, scope: ListScope, whole: Page, *, known_at: float, at: float) -> None:
        now = self._freshness.now()
        begun = self._streams.seed(scope, whole, known_at=known_at, at=at, now=now)
        if begun is not None:
            records = list_records(begun, whole, at=begun.confirmed_at)
            await self._freshness.journal.commit(*records)
            if whole.unreadable:
                resource = str(scope.resource)
                self._streams.counters.unreadable_came(resource, "item", whole.unreadable)


def whole_target(scope: ListScope) -> str:
    """Of all objects of it, as they are now."""
    return f"{scope.path}?{urlencode(scope.params)}"


async def _beside(
    size: int,
    function: Callable[Parameters, Result],
    *args: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    """What many bytes need is done beside the event loop, which answers others meanwhile."""
    if size <= LONG:
        return function(*args, **named)
    return await asyncio.to_thread(function, *args, **named)


def _read(body: bytes, wanted: Form) -> tuple[Form, Page | None]:
    """What a list says, and its form: a server need not give the one that was asked for."""
    if wanted is Form.OTHER:
        return wanted, None
    if wanted is Form.TABLE:
        with suppress(Malformed):
            return wanted, read_table_versions(body)
    try:
        page = read_page(body)
    except Malformed:
        return wanted, None
    return Form.METADATA if page.api_version.startswith(META_GROUP) else Form.WHOLE, page


class PageSets:
    """All pages of a set have the first one's version; a set that is not finished is forgotten."""

    def __init__(self) -> None:
        # By whose next page it is, the items so far, and how many more cannot be read.
        self._open: OrderedDict[tuple[ListScope, Form, str], tuple[list[Item], int]] = OrderedDict()

    def joined(self, scope: ListScope, form: Form, token: str, page: Page) -> Page | None:
        """The whole list once `page`, asked for with continue `token`, completes it.

        A token is a version and a key (k8s.io/apiserver, pkg/storage/continue.go): clients that
        want the objects in different forms may well hold equal ones.
        """
        items, unreadable = page.items, page.unreadable
        if token:
            before = self._open.pop((scope, form, token), None)
            if before is None:
                return None
            items, unreadable = before[0] + items, before[1] + unreadable
        if not page.continue_token:
            return Page(page.kind, page.api_version, page.version, "", items, unreadable=unreadable)
        self._open[scope, form, page.continue_token] = items, unreadable
        while len(self._open) > MAX_SETS or self.size > MAX_BYTES:
            self._open.popitem(last=False)
        return None

    def give_up(self) -> bool:
        """The oldest set, if there is one."""
        if self._open:
            self._open.popitem(last=False)
            return True
        return False

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(item.raw) for items, _ in self._open.values() for item in items)


class _StreamedList:
    """A list on its way from upstream to a client, of which only the version is read, before
    anything of it is handed on. Compared with what `stream`, of the same scope, holds: one that is
    equal is as new, though its cursor may learn so much later."""

    def __init__(
        self, freshness: Freshness, scope: ListScope, stream: Stream | None, before: _Before
    ) -> None:
        self._freshness = freshness
        self._before = before
        self._scope = scope
        self._stream = stream
        self._fingerprint = 0
        self._version = 0
        self._comparison: Comparison | None = None

    def may_pass(self, beginning: bytes) -> bool:
        version = version_at_head(beginning)
        # A version that goes back is one to learn from: upstream may have been restored.
        if version is None or version < self._before.minimum:
            return False
        self._version = version
        self._freshness.handed_out(self._scope.resource, version, self._scope)
        stream = self._stream
        if stream is not None and stream.collection.cursor < version:
            self._fingerprint = stream.collection.fingerprint
            self._comparison = Comparison(stream.body(StreamView()))
        return True

    def passed(self, piece: bytes) -> None:
        if self._comparison is not None:
            self._comparison.more(piece)

    def end(self) -> None:
        """All of it was handed on, and it is of now."""
        if self._stream is None or self._comparison is None or not self._comparison.is_equal:
            return
        fresh, listed = self._freshness, self._before.evidence(self._version, self._fingerprint)
        fresh.minimum.listed(self._scope, self._version, self._fingerprint)
        self._stream.compare(listed)
