"""What the relay's own credential may, before a hub is believed in its place.

Guarantees: a stream comes from a hub only where the API server lets this relay list and watch all
of it; an answer counts for `ttl` seconds, and for longer while there is no other. Without one, it
is no.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.core.access.authorizer import Attributes
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.streams.stream import Stream

# Whether the owner of a token, or with None the relay itself, is allowed this, and why. Raises
# `ApiError` and `Unreachable`.
Review = Callable[[str | None, Attributes], Awaitable[tuple[bool, str]]]

VERBS: Final = ("list", "watch")
# Scopes, the latest ones; a relay has some dozens of streams.
MAX_KNOWN: Final = 1000


class OwnRights:
    """`review`: of `Reviews`; `ttl` in seconds."""

    def __init__(self, review: Review, link: UpstreamLink, *, ttl: float) -> None:
        self._review = review
        self._link = link
        self._ttl = ttl
        self._known: dict[ListScope, tuple[bool, float]] = {}
        self._asking = asyncio.Lock()

    async def may_read(self, stream: Stream) -> bool:
        scope = stream.scope
        async with self._asking:
            now = boottime()
            is_allowed, asked_at = self._known.get(scope, (False, None))
            is_old = asked_at is None or now - asked_at >= self._ttl
            if not (is_old and self._link.is_up(now)):
                return is_allowed
            try:
                is_allowed = await self._asked(scope)
            except (ApiError, Unreachable) as error:
                logger.debug("own rights are not known", extra=fields(stream=scope, why=error))
                return is_allowed
            self._known.pop(scope, None)
            self._known[scope] = is_allowed, now
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
            return is_allowed

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
