"""What the relay's own credential may, before a hub is believed in its place.

Guarantees: a stream comes from a hub only where the API server lets this relay list and watch all
of it; an answer counts for `ttl` seconds, and for longer while there is no other, also after a
restart. Without one, it is no.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.core.access.authorizer import Attributes
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.streams.stream import Stream

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
