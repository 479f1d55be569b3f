"""What clients read in a form that is not kept (Table, PartialObjectMetadata), asked for in JSON.

`kubectl get` is most people's first request, and is to be answered again while the link is cut:
where no stream brings what it showed, the same is asked for once more, behind the client's answer.
Guarantees: with the caller's own credentials, after upstream has answered the same caller's same
request; never for Secrets, of which a Table shows no data; one request at a time, PACE apart, and
none where too many wait.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest
from relay_sidecar.web.upstream import Upstream

# Seconds between two requests: a script that reads a thousand objects costs ten a second.
PACE: Final = 0.1
# Reads that wait; a client's request is kept with each of them.
MAX_WAITING: Final = 64
_SECRETS: Final = ("", "secrets")

# Takes in an answer that was asked for at a wall time.
Learn = Callable[[BufferedResponse, float], Awaitable[object]]


class WholeAnswers:
    """`timeout` in seconds."""

    def __init__(self, upstream: Upstream, *, timeout: float, wall: Callable[[], float]) -> None:
        self._upstream = upstream
        self._timeout = timeout
        self._wall = wall
        self._waiting: OrderedDict[Hashable, tuple[web.BaseRequest, str, Learn]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def want(
        self,
        resource: ResourceName,
        place: Hashable,
        request: web.BaseRequest,
        target: str,
        learn: Learn,
    ) -> None:
        """What is at `target`, and was shown to `request`; `place` tells one from another."""
        is_secret = (resource.group, resource.plural) == _SECRETS
        if is_secret or place in self._waiting or len(self._waiting) >= MAX_WAITING:
            return
        self._waiting[place] = (request, target, learn)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Until nothing waits, or upstream is out of reach: the next read asks again."""
        while self._waiting:
            _, (request, target, learn) = self._waiting.popitem(last=False)
            asked_at = self._wall()
            asked = ClientRequest(request, "application/json", self._timeout, target)
            try:
                answer = await self._upstream.fetch(asked)
            except Unreachable:
                self._waiting.clear()
                return
            except Refused:
                answer = None  # too long
            if answer is not None:
                await learn(answer, asked_at)
            await asyncio.sleep(PACE)
