"""`--access caller`: each caller with the rights of its own token, which upstream decides about.

Guarantees: nothing that the relay keeps is shown to anybody whom upstream did not allow that,
within `--access-ttl` (twice that while its reviews fail), or while it is out of reach within
`--access-offline-ttl` of running time since it answered last; that holds over restarts, whatever
the wall clock does. Whoever cannot be verified gets 503, never an answer; many who want the same
are asked about once. What is passed on upstream carries the caller's token, and is judged there.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Protocol

from aiohttp import hdrs

from edge_sidecars.apimachinery.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused, forbidden, unauthorized, unavailable
from edge_sidecars.kubeapi import ApiError, Forbidden, Unreachable
from edge_sidecars.runtime.clock import boot_id, boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.web.aiohttp_web import BaseRequest
from relay_sidecar.access.admission import Caller
from relay_sidecar.core.authorization import (
    AuthorizationCache,
    saved_clock,
)
from relay_sidecar.core.authorization_verdict import (
    Allowed,
    Authorization,
    Denied,
    NeedsReview,
    TokenRejected,
    UserInfo,
)
from relay_sidecar.core.offline_clock import OfflineClock
from relay_sidecar.core.resource_attributes import Attributes
from relay_sidecar.core.tokens import bearer_token
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob

# The journal's space in which decisions are kept.
SPACE = "access"
SALT = b"salt"
SALT_LENGTH = 32
# Whose it is, what it may, and the same again for a token that changed hands meanwhile.
MAX_QUESTIONS = 4
# Seconds between two records of how long upstream has not answered, but for a short offline_ttl.
CLOCK_KEPT_EVERY = 60.0
# So many records in the course of an offline_ttl at least, and on the whole while upstream answers.
CLOCK_KEEPS = 48


class Reviewer(Protocol):
    """Upstream, asked with the caller's token. Both raise `ApiError` and `Unreachable`."""

    async def who(self, token: str) -> UserInfo: ...

    async def may(self, token: str, attributes: Attributes) -> tuple[bool, str]: ...


class CallerAccess:
    def __init__(
        self,
        reviewer: Reviewer,
        decisions: AuthorizationCache,
        journal: Journal,
        *,
        is_up: Callable[[], bool],
        heard_at: Callable[[], float],
        offline_ttl: float,
    ) -> None:
        self._reviewer = reviewer
        self._decisions = decisions
        self._journal = journal
        self._is_up = is_up
        self._heard_at = heard_at
        self._offline_ttl = offline_ttl
        # By the link's own verdict; `is_up` is true also while there is none yet.
        self._answers = False
        self._clock_kept_at = boottime()
        self._asking: dict[Hashable, asyncio.Task[None]] = {}

    @classmethod
    async def open(
        cls,
        reviewer: Reviewer,
        journal: Journal,
        kept: Mapping[bytes, bytes],
        *,
        is_up: Callable[[], bool],
        heard_at: Callable[[], float],
        ttl: float,
        offline_ttl: float,
    ) -> "CallerAccess":
        """`kept`: what an earlier life left in the journal's space `SPACE`; `heard_at`: when
        upstream answered last, by the boot clock."""
        salt = kept.get(SALT, b"")
        if len(salt) != SALT_LENGTH:
            salt = secrets.token_bytes(SALT_LENGTH)
            await journal.commit(Blob(SPACE, SALT, salt))
        readable = {key.decode(errors="replace"): value for key, value in kept.items()}
        clock = OfflineClock(
            boot_id=await asyncio.to_thread(boot_id), now=boottime(), saved=saved_clock(readable)
        )
        decisions = AuthorizationCache(salt=salt, ttl=ttl, offline_ttl=offline_ttl, clock=clock)
        decisions.restore(readable, now=boottime())

        def state() -> list[Blob]:
            return [Blob(SPACE, SALT, salt), *_records(decisions.snapshot(now=boottime()))]

        journal.rewrite_from(state)
        return cls(
            reviewer,
            decisions,
            journal,
            is_up=is_up,
            heard_at=heard_at,
            offline_ttl=offline_ttl,
        )

    async def run(self) -> None:
        """Keeps, until it is cancelled, how long upstream has not answered."""
        interval = min(CLOCK_KEPT_EVERY, max(self._offline_ttl / CLOCK_KEEPS, 1.0))
        while True:
            await asyncio.sleep(interval)
            now = boottime()
            if self._answers:
                self._decisions.contact(now=self._heard_at())
            is_due = now - self._clock_kept_at >= self._offline_ttl / CLOCK_KEEPS
            if is_due or not self._answers:
                await self._keep_clock()

    async def close(self) -> None:
        """Ends the questions that are open."""
        asking = tuple(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._keep_clock()

    def link(self, is_up: bool) -> None:
        if is_up:
            self._decisions.connected(now=boottime())
        elif self._answers:
            self._decisions.contact(now=self._heard_at())
            self._begin("clock", self._keep_clock)
        self._answers = is_up

    async def admit(self, request: BaseRequest) -> Caller:
        """Whose the token is, `may` asks: what is passed on, upstream looks at itself."""
        token = bearer_token(request.headers.get(hdrs.AUTHORIZATION))
        if token is None:
            raise Refused(unauthorized())
        return Caller(token)

    async def may(
        self, caller: Caller, info: RequestInfo, *, label_selector: str, field_selector: str
    ) -> float:
        attributes = attributes_of(info, label_selector, field_selector)
        match await self._verdict(caller.token, attributes):
            case Allowed(until):
                return time.monotonic() + until - boottime()
            case Denied(user, reason, _):
                raise Refused(attributes.refusal(user, reason))
            case TokenRejected():
                raise Refused(unauthorized())
            case _:
                raise Refused(
                    unavailable(
                        "who asks, and whether that is allowed, only the API server can say: "
                        "it is out of reach, and has not said so before"
                    )
                )

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        return {hdrs.AUTHORIZATION: f"Bearer {caller.token}"}

    async def _verdict(self, token: str, attributes: Attributes) -> Authorization:
        try:
            for _ in range(MAX_QUESTIONS):
                verdict = self._judge(token, attributes, is_online=self._is_up())
                if not isinstance(verdict, NeedsReview):
                    return verdict
                if verdict.who:
                    await self._once(token, lambda: self._ask_who(token))
                else:
                    self._ask_beside(token, attributes)
                    await self._once((token, attributes), lambda: self._ask(token, attributes))
        except Unreachable as error:
            _tell(error)
        except ApiError as error:
            _raise_for(error)
            _tell(error)
            return self._judge(token, attributes, is_online=False, is_failing=self._answers)
        return self._judge(token, attributes, is_online=False)

    def _judge(
        self, token: str, attributes: Attributes, *, is_online: bool, is_failing: bool = False
    ) -> Authorization:
        return self._decisions.judge(
            token, attributes, now=boottime(), is_online=is_online, is_failing=is_failing
        )

    def _ask_beside(self, token: str, attributes: Attributes) -> None:
        """Nobody waits for it: it is for the time when nobody can be asked."""
        general = self._decisions.beside(token, attributes, now=boottime())
        if general is not None:
            self._begin((token, general), lambda: self._ask(token, general))

    async def _ask_who(self, token: str) -> None:
        try:
            user = await self._reviewer.who(token)
            self._decisions.identified(token, user, now=boottime())
        except ApiError as error:
            if error.status != 401:
                raise
            self._decisions.rejected(token, now=boottime())
        await self._keep()

    async def _ask(self, token: str, attributes: Attributes) -> None:
        try:
            allowed, reason = await self._reviewer.may(token, attributes)
            self._decisions.decided(
                token, attributes, allowed=allowed, reason=reason, now=boottime()
            )
        except ApiError as error:
            if error.status != 401:
                raise
            self._decisions.rejected(token, now=boottime())
        await self._keep()

    async def _keep(self) -> None:
        unkept = self._decisions.take_unkept(now=boottime())
        if unkept:
            await self._journal.commit(*_records(unkept))

    async def _keep_clock(self) -> None:
        self._clock_kept_at = boottime()
        await self._journal.commit(*_records(self._decisions.clock_record(now=self._clock_kept_at)))

    async def _once(self, key: Hashable, ask: Callable[[], Awaitable[None]]) -> None:
        """One question at a time for all who want to know; who leaves does not end it."""
        await asyncio.shield(self._begin(key, ask))

    def _begin(self, key: Hashable, ask: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task = self._asking.get(key)
        if task is None:
            task = asyncio.ensure_future(ask())
            self._asking[key] = task
            task.add_done_callback(lambda done: self._answered(key, done))
        return task

    def _answered(self, key: Hashable, task: asyncio.Task[None]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; if nobody does, it is nobody's


def _records(entries: Mapping[str, bytes | None]) -> list[Blob]:
    return [Blob(SPACE, key.encode(), value) for key, value in entries.items()]


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


def _tell(error: ApiError | Unreachable) -> None:
    level = logger.warning if sparing.allows("caller", str(error)) else logger.debug
    level("a caller could not be verified", extra=fields(why=error))


def _raise_for(error: ApiError) -> None:
    """What an API server that can decide says about the question; for others, what is known
    decides, for a short time only while the link is up."""
    if isinstance(error, Forbidden):
        raise Refused(forbidden("", why=f"upstream reviews no access: {error.message}")) from error
    if error.is_refusal and error.status != 429:
        raise Refused(unavailable(f"upstream does not review access: {error}")) from error
