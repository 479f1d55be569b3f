"""Objects that clients read by name in a form that is not kept (Table, PartialObjectMetadata).

`kubectl get NAME` is most people's first request, and is to be answered again while the link is
cut: the object itself is asked for in JSON, once, behind the client's answer. Guarantees: with the
caller's own credentials, after upstream has answered the same caller's same GET; never for
Secrets, of which a Table shows no data; one request at a time, PACE apart, and not at all where a
stream brings the object or too many wait.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from edge_sidecars.apimachinery.request.request_info import Form
from edge_sidecars.apimachinery.scope import ResourceName
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import Unreachable
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest
from relay_sidecar.web.reads.selection import ClientRead, key_of
from relay_sidecar.web.upstream import Upstream

# Seconds between two requests: a script that reads a thousand objects costs ten a second.
PACE: Final = 0.1
# Reads that wait; a client's request is kept with each of them.
MAX_WAITING: Final = 64
_FORMS: Final = (Form.TABLE, Form.METADATA)
_SECRETS: Final = ("", "secrets")

Learn = Callable[[ClientRead, BufferedResponse, float], Awaitable[object]]


class WholeObjects:
    """`learn` takes in an answer that was asked for at a wall time; `timeout` in seconds."""

    def __init__(
        self, upstream: Upstream, learn: Learn, *, timeout: float, wall: Callable[[], float]
    ) -> None:
        self._upstream = upstream
        self._learn = learn
        self._timeout = timeout
        self._wall = wall
        self._waiting: deque[ClientRead] = deque()
        self._task: asyncio.Task[None] | None = None

    def want(self, read: ClientRead) -> None:
        """The object behind an answer that upstream gave to `read`."""
        place = _place(read)
        is_secret = (read.resource.group, read.resource.plural) == _SECRETS
        if is_secret or read.wanted.form not in _FORMS or len(self._waiting) >= MAX_WAITING:
            return
        if any(_place(one) == place for one in self._waiting):
            return
        self._waiting.append(read)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Until nothing waits, or upstream is out of reach: then whoever reads again asks again."""
        while self._waiting:
            read = self._waiting.popleft()
            asked_at, target = self._wall(), read.request.raw_path.partition("?")[0]
            asked = ClientRequest(read.request, "application/json", self._timeout, target)
            try:
                answer = await self._upstream.fetch(asked)
                await self._learn(read, answer, asked_at)
            except (Unreachable, Refused):
                self._waiting.clear()
                return
            await asyncio.sleep(PACE)


def _place(read: ClientRead) -> tuple[ResourceName, tuple[str, str]]:
    return read.resource, key_of(read.info)
