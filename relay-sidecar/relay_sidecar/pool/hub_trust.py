"""Whether a hub is believed: the relay's own rights before, and checks by chance afterwards.

Guarantees: a stream comes from a hub only where the API server lets this relay list and watch all
of it; an answer counts for `ttl` seconds, and for longer while there is no other, also after a
restart. A hub may show other bytes at the same version (a hub passes bytes on unchanged), or still
show an object `UNSEEN_FOR` seconds after the API server did not have it. It then feeds nothing for
an hour, and its stream is listed from the API server. Nothing is asked over a neighbour's link.
"""

import asyncio
import json
import math
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Never

from edge_sidecars.apimachinery.objects import Item, Malformed, read_item
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.core.access.authorizer import Attributes
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.pool.sources import PoolSources
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.reflector.source import CLOUD, UpstreamSource

# Whether the owner of a token, or with None the relay itself, is allowed this, and why. Raises
# `ApiError` and `Unreachable`.
Review = Callable[[str | None, Attributes], Awaitable[tuple[bool, str]]]

# The journal's.
SPACE: Final = "own-rights"
VERBS: Final = ("list", "watch")
# Scopes, the latest ones; a relay has some dozens of streams.
MAX_KNOWN: Final = 1000


class OwnRights:
    """`review`: of `Reviews`; `saved`: what an earlier life left in `SPACE`; `ttl` in seconds."""

    def __init__(
        self,
        review: Review,
        link: UpstreamLink,
        journal: Journal,
        saved: Mapping[bytes, bytes],
        *,
        ttl: float,
    ) -> None:
        self._review = review
        self._link = link
        self._journal = journal
        self._ttl = ttl
        # By scope: the answer, and when it was asked for.
        self._known = {it.decode(errors="replace"): (True, -math.inf) for it in saved}
        self._asking = asyncio.Lock()
        journal.rewrite_from(self._state)

    async def may_read(self, stream: Stream) -> bool:
        scope = str(stream.scope)
        async with self._asking:
            now = boottime()
            was_allowed, asked_at = self._known.get(scope, (False, -math.inf))
            if now - asked_at < self._ttl or not self._link.is_up(now):
                return was_allowed
            try:
                is_allowed = await self._asked(stream.scope)
            except (ApiError, Unreachable) as error:
                logger.debug("own rights are not known", extra=fields(stream=scope, why=error))
                return was_allowed
            self._known.pop(scope, None)
            self._known[scope] = is_allowed, now
            if is_allowed != was_allowed:
                self._keep(scope, is_allowed=is_allowed)
            if len(self._known) > MAX_KNOWN:
                oldest = next(iter(self._known))
                if self._known.pop(oldest)[0]:
                    self._keep(oldest, is_allowed=False)
            return is_allowed

    def _keep(self, scope: str, *, is_allowed: bool) -> None:
        """Only what is allowed: nothing known is no."""
        self._journal.send(Blob(SPACE, scope.encode(), b"" if is_allowed else None))

    def _state(self) -> Iterator[Blob]:
        for scope, (is_allowed, _) in self._known.items():
            if is_allowed:
                yield Blob(SPACE, scope.encode(), b"")

    async def _asked(self, scope: ListScope) -> bool:
        for verb in VERBS:
            attributes = Attributes(
                verb=verb,
                group=scope.resource.group,
                version=scope.resource.version,
                resource=scope.resource.plural,
                namespace=scope.namespace,
                name=scope.name or "",
                field_selector=str(scope.fields),
                label_selector=str(scope.labels),
            )
            if not (await self._review(None, attributes))[0]:
                return False
        return True


# Seconds (pool.md 4); half as long and half as much again, so that nodes do not ask together.
EVERY: Final = 300.0
# Seconds after which a hub that is live has shown what the API server already had.
UNSEEN_FOR: Final = 30.0
# Seconds.
SHUNNED_FOR: Final = 3600.0


class SpotCheck:
    """`is_own_link_up`: whether the API server is reached without a neighbour."""

    def __init__(
        self,
        streams: Streams,
        sources: PoolSources,
        cloud: UpstreamSource,
        *,
        is_own_link_up: Callable[[], bool],
    ) -> None:
        self._streams = streams
        self._sources = sources
        self._cloud = cloud
        self._is_own_link_up = is_own_link_up

    async def run(self) -> Never:
        while True:
            await asyncio.sleep(EVERY * (0.5 + random.random()))
            await self.check()

    async def check(self) -> None:
        fed = [it for it in self._streams if self._hub(it) and it.collection.objects]
        if not fed or not self._is_own_link_up():
            return
        stream = random.choice(fed)
        hub, item = self._hub(stream), random.choice(stream.items())
        try:
            why = await self._lie(stream, item)
        except (ApiError, Unreachable, Malformed) as error:
            logger.debug("hub is not checked", extra=fields(stream=stream.scope, why=error))
            return
        if why and self._hub(stream) == hub:
            logger.warning(
                "a hub lies",
                extra=fields(hub=hub, stream=stream.scope, object="/".join(item.key), why=why),
            )
            self._streams.counters.lying_hubs += 1
            self._sources.shun(hub, boottime() + SHUNNED_FOR)
            stream.relist()
            # Of its other streams too, another source comes first now.
            self._streams.refresh()

    async def _lie(self, stream: Stream, item: Item) -> str:
        """Why the hub cannot be right; "" where it may be."""
        known = await self._asked(stream, item)
        if known is not None and known.version == item.version:
            return "" if _is_same(known.raw, item.raw) else "other bytes at the same version"
        await asyncio.sleep(UNSEEN_FOR)
        shown = stream.collection.objects.get(item.key)
        if shown is None or shown.version != item.version or not stream.is_live():
            return ""
        if known is not None:
            # A version of before what is here: of an API server that is behind.
            return "it withholds a change" if known.version > item.version else ""
        return "" if await self._asked(stream, item) is not None else "there is no such object"

    async def _asked(self, stream: Stream, item: Item) -> Item | None:
        """By the API server; None where it has none. Raises `ApiError`, `Unreachable`,
        `Malformed`."""
        namespace, name = item.key
        scope = ListScope(stream.scope.resource, namespace)
        try:
            body = await self._cloud.page(f"{scope.path}/{name}", {})
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return read_item(bytes(body))

    def _hub(self, stream: Stream) -> str:
        """Which one feeds it, live; "" where none does."""
        return stream.source if stream.source != CLOUD and stream.is_live() else ""


def _is_same(one: bytes, other: bytes) -> bool:
    """In whatever order of fields; where a hub nests deeper than can be read, byte for byte."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except RecursionError:
        return one == other
