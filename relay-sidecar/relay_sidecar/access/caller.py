"""`--access caller`: each caller with the rights of its own token, which upstream decides about.

Guarantees: Nothing that the relay caches is shown to a caller whom upstream has not allowed that
recently. Recently is within `--access-ttl` (twice that while its reviews fail), or while upstream
is out of reach within `--access-offline-ttl` of running time since it answered last. That holds
over restarts, whatever the wall clock does. A caller that cannot be verified gets 503, never an
answer; many who want the same are asked about once. What is passed on upstream carries the caller's
token, and is judged there.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused, forbidden, unauthorized, unavailable
from edge_sidecars.kubeapi import ApiError, Forbidden, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.web.aiohttp_web import BaseRequest
from relay_sidecar.access.admission import Caller, token_of
from relay_sidecar.access.authorization_store import AuthorizationStore
from relay_sidecar.core.access.authorizer import (
    Attributes,
    Authorization,
    Decision,
    Undecided,
    UserInfo,
)
from relay_sidecar.core.access.node_identity import is_node_component
from relay_sidecar.core.link import UNAUTHORIZED

# Whose it is, what it may, and the same again for a token that changed hands meanwhile.
MAX_QUESTIONS = 4


# Seconds until upstream is asked again about an issued token on which it did not decide: at first,
# and at most, twice as long each time.
REVIEW_RETRY, LAST_REVIEW_RETRY = 5.0, 300.0


class Reviewer(Protocol):
    """Upstream, asked with the caller's token. Both raise `ApiError` and `Unreachable`."""

    async def who(self, token: str) -> UserInfo: ...

    async def may(self, token: str, attributes: Attributes) -> tuple[bool, str]: ...


class CallerAccess:
    """`is_up` tells whether upstream can be asked; that is true also before the link's first
    verdict. `cause`: why it is not reached."""

    def __init__(
        self,
        reviewer: Reviewer,
        store: AuthorizationStore,
        *,
        is_up: Callable[[], bool],
        cause: Callable[[], str] = lambda: "",
    ) -> None:
        self._cause = cause
        self._reviewer = reviewer
        self._store = store
        self._cache = store.cache
        self._is_up = is_up
        self._reviews = SingleFlight()
        self._families = store.families
        # Called with the token of each caller that may read something, and what that is.
        self.on_allowed: list[Callable[[str, Attributes], None]] = []

    async def close(self) -> None:
        """Ends the reviews that are open."""
        await self._reviews.close()
        await self._store.save_clock()

    def is_of_node(self, caller: Caller) -> bool:
        return is_node_component(self._cache.user(caller.token))

    def link(self, is_up: bool) -> None:
        if self._store.link(is_up):
            self._reviews.begin("clock", self._store.save_clock)

    async def admit(self, request: BaseRequest) -> Caller:
        """Whose the token is, `may` asks: what is passed on, upstream looks at itself."""
        token = token_of(request)
        if token is None:
            raise Refused(unauthorized())
        return Caller(token)

    async def may(
        self, caller: Caller, info: RequestInfo, *, label_selector: str, field_selector: str
    ) -> float:
        attributes = attributes_of(info, label_selector, field_selector)
        match await self._verdict(caller.token, attributes):
            case Decision(True, until):
                self._remember(caller.token, attributes)
                for observer in self.on_allowed:
                    observer(caller.token, attributes)
                return time.monotonic() + until - boottime()
            case Decision(False, _, user, reason):
                raise Refused(attributes.refusal(user, reason))
            case Undecided.TOKEN_REJECTED:
                raise Refused(unauthorized())
            case _:
                raise Refused(
                    unavailable(
                        "who asks, and whether that is allowed, only the API server can say: "
                        f"it is out of reach, and has not said so before: {self._cause()}"
                    )
                )

    # ── what is asked before callers do ──

    def user(self, token: str) -> str:
        """Whose the token is by upstream's latest answer; "" where there is none."""
        return self._cache.user(token)

    def is_due(self, token: str, attributes: Attributes) -> bool:
        """Whether upstream is to be asked about what counts only while it cannot be."""
        return self._store.is_up and self._cache.is_due(token, attributes, now=boottime())

    def begin(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Asks without a caller that waits; once for all who begin the same. The key is none of a
        question that `ask` itself waits for."""
        self._reviews.begin(key, ask)

    async def identify(self, token: str) -> str:
        """Whose the token is, "" where upstream refuses it. Raises `ApiError`, `Unreachable`."""
        if not self._is_up():
            raise Unreachable(self._cause())
        if not self._cache.user(token):
            await self._reviews.once(token, lambda: self._ask_who(token))
        return self._cache.user(token)

    async def review(self, token: str, attributes: Attributes) -> bool | None:
        """Whether upstream allows it; None where it did not decide. What it allows is remembered
        as if the caller had asked for it."""
        if not self._store.is_up:
            return None
        try:
            verdict = await self._verdict(token, attributes)
        except Refused:
            # Upstream reviews no access.
            return False
        if verdict is Undecided.TOKEN_REJECTED:
            return False
        if not isinstance(verdict, Decision):
            return None
        if verdict.allowed:
            self._remember(token, attributes)
        return verdict.allowed

    def _remember(self, token: str, attributes: Attributes) -> None:
        """For the tokens that follow this one."""
        self._review(self._families.asked(token, attributes), [attributes])
        self._store.save_families()

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        return {hdrs.AUTHORIZATION: f"Bearer {caller.token}"}

    def issued(self, token: str) -> None:
        """This node got the token, which its pod is to use instead of those before. What these were
        used for is asked about now, while upstream can be asked."""
        self._review(token, self._families.issued(token))

    def rights(self, token: str) -> list[str]:
        """What its pod asked for and would get with it while upstream is out of reach, like "watch
        services": verb, resource and group."""
        found = set()
        for each in self._families.wanted(token):
            verdict = self._judge(token, each, is_online=False)
            if isinstance(verdict, Decision) and verdict.allowed:
                group = f".{each.group}" if each.group else ""
                found.add(f"{each.verb} {each.resource}{group}")
        return sorted(found)

    def _review(self, token: str, wanted: Sequence[Attributes]) -> None:
        if token and wanted:
            self._reviews.begin(("newest", token, *wanted), lambda: self._reviewed(token, wanted))

    async def _reviewed(self, token: str, wanted: Sequence[Attributes]) -> None:
        """One after the other; again where upstream did not decide, until there is a newer one."""
        left, delay = list(wanted), REVIEW_RETRY
        while left and self._families.is_newest(token):
            left = [each for each in left if not await self._is_reviewed(token, each)]
            if left:
                await asyncio.sleep(delay)
                delay = min(2 * delay, LAST_REVIEW_RETRY) if self._store.is_up else REVIEW_RETRY

    async def _is_reviewed(self, token: str, attributes: Attributes) -> bool:
        if not self._store.is_up:
            return False
        try:
            verdict = await self._verdict(token, attributes)
        except Refused:
            # Upstream reviews no access.
            return True
        return isinstance(verdict, Decision) or verdict is Undecided.TOKEN_REJECTED

    async def _verdict(self, token: str, attributes: Attributes) -> Authorization:
        try:
            for _ in range(MAX_QUESTIONS):
                verdict = self._judge(token, attributes, is_online=self._is_up())
                if verdict is Undecided.NEEDS_IDENTITY:
                    await self._reviews.once(token, lambda: self._ask_who(token))
                elif verdict is Undecided.NEEDS_DECISION:
                    self._ask_beside(token, attributes)
                    await self._reviews.once(
                        (token, attributes), lambda: self._ask(token, attributes)
                    )
                else:
                    return verdict
        except Unreachable as error:
            _log(error)
        except ApiError as error:
            _raise_for(error)
            _log(error)
            is_failing = self._store.is_up
            return self._judge(token, attributes, is_online=False, is_failing=is_failing)
        return self._judge(token, attributes, is_online=False)

    def _judge(
        self, token: str, attributes: Attributes, *, is_online: bool, is_failing: bool = False
    ) -> Authorization:
        return self._cache.judge(
            token, attributes, now=boottime(), is_online=is_online, is_failing=is_failing
        )

    def _ask_beside(self, token: str, attributes: Attributes) -> None:
        """No request waits for it: it is for the time when upstream cannot be asked."""
        general = self._cache.beside(token, attributes, now=boottime())
        if general is not None:
            self._reviews.begin((token, general), lambda: self._ask(token, general))

    async def _ask_who(self, token: str) -> None:
        async with self._learning(token):
            user = await self._reviewer.who(token)
            self._cache.identified(token, user, now=boottime())

    async def _ask(self, token: str, attributes: Attributes) -> None:
        async with self._learning(token):
            allowed, reason = await self._reviewer.may(token, attributes)
            self._cache.decided(token, attributes, allowed=allowed, reason=reason, now=boottime())
        if not allowed:
            # What it may while upstream cannot be asked may have ended with this.
            self._ask_beside(token, attributes)

    @asynccontextmanager
    async def _learning(self, token: str) -> AsyncIterator[None]:
        """What is learned is saved, also that upstream refuses the token."""
        try:
            yield
        except ApiError as error:
            if error.status != UNAUTHORIZED:
                raise
            self._cache.rejected(token, now=boottime())
        await self._store.save()


class SingleFlight:
    """One question at a time for all who want its answer (golang.org/x/sync/singleflight)."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}

    async def once(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A caller that leaves does not end the question."""
        await asyncio.shield(self.begin(key, ask))

    def begin(
        self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    async def close(self) -> None:
        """Ends the questions that are open."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: Hashable, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # callers that still wait get it; without any it is dropped


def attributes_of(info: RequestInfo, label_selector: str, field_selector: str) -> Attributes:
    if not info.is_resource:
        return Attributes(verb=info.verb, path=info.path)
    return Attributes(
        verb=info.verb,
        group=info.resource.group,
        version=info.resource.version,
        resource=info.resource.plural,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        field_selector=field_selector,
        label_selector=label_selector,
    )


def _log(error: ApiError | Unreachable) -> None:
    level = logger.warning if sparing.allows("caller", str(error)) else logger.debug
    level("a caller could not be verified", extra=fields(why=error))


def _raise_for(error: ApiError) -> None:
    """What an API server that can decide says about the question; for others, what is known
    decides, for a short time only while the link is up."""
    if isinstance(error, Forbidden):
        raise Refused(forbidden("", why=f"upstream reviews no access: {error.message}")) from error
    if error.is_refusal and error.status != 429:
        raise Refused(unavailable(f"upstream does not review access: {error}")) from error
