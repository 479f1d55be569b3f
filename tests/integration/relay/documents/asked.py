"""Documents asked of the real API server, as a relay asks, with a count of what that took."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from edge_sidecars.kubeapi import ApiTransport
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from relay_sidecar.core.link import LinkEvidence
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.upstream.documents.upkeep import DocumentSource, FetchedDocument
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.settling import connections_closed

# Seconds.
TIMEOUT = 10.0

T = TypeVar("T")


class Asked(DocumentSource):
    """`asked`: path and status of each request so far; `received`: bytes of bodies."""

    def __init__(self, transport: ApiTransport) -> None:
        self.transport = transport
        self.asked: list[tuple[str, int]] = []
        self.received = 0
        self.outcomes: list[LinkEvidence] = []
        super().__init__(
            transport,
            timeout=TIMEOUT,
            met=self.outcomes.append,
            authenticated=lambda status: None,
            received=self._count,
        )

    async def fetch(self, path: str, headers: Mapping[str, str]) -> FetchedDocument:
        answer = await super().fetch(path, headers)
        self.asked.append((path, answer.status))
        return answer

    def forget(self) -> None:
        self.asked.clear()
        self.received = 0

    def _count(self, size: int) -> None:
        self.received += size


def with_upstream(
    plane: ControlPlane,
    directory: Path | None,
    what: Callable[[Asked, Journal, Saved], Awaitable[T]],
    *,
    server: str | None = None,
) -> T:
    """From a start of the relay to its end; `server`: another way to the API server."""

    async def run() -> T:
        journal = await Journal.open(directory)
        transport = ApiTransport(
            Kubeconfig(plane.admin_kubeconfig(server=server)), user_agent="relay-sidecar-test"
        )
        try:
            return await what(Asked(transport), journal, await journal.load())
        finally:
            await transport.close()
            await journal.close()
            await connections_closed()

    return asyncio.run(run())
