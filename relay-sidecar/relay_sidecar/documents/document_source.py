"""Documents of upstream (discovery, OpenAPI, version), as the relay itself asks for them.

Guarantees: one whole answer or `Unreachable`; each answer of an API server is evidence that
the link is there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from edge_sidecars.kubeapi import ApiTransport, Request, TooLong, Unreachable
from relay_sidecar.core.link import NOBODY_THERE, LinkEvidence

# Bytes; /openapi/v2 of a cluster with hundreds of custom resources.
MAX_DOCUMENT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """`body` in the coding that the headers tell."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class DocumentFetcher(Protocol):
    async def fetch(self, path: str, headers: Mapping[str, str]) -> FetchedDocument:
        """The answer to a GET. Raises `kubeapi.Unreachable`."""
        ...


class DocumentSource:
    """`met` is called with what each request met with, `authenticated` with the status of each
    answer to the relay's own credentials; `received` how many bytes came. Seconds."""

    def __init__(
        self,
        transport: ApiTransport,
        *,
        timeout: float,
        met: Callable[[LinkEvidence], None],
        authenticated: Callable[[int], None],
        received: Callable[[int], None],
    ) -> None:
        self._transport = transport
        self._timeout = timeout
        self._met = met
        self._authenticated = authenticated
        self._received = received

    async def fetch(self, path: str, headers: Mapping[str, str]) -> FetchedDocument:
        """Raises `kubeapi.Unreachable`."""
        request = Request("GET", path, header_timeout=self._timeout, headers=headers.items())
        async with self._transport.send(request) as answer:
            self._authenticated(answer.status)
            if answer.status not in NOBODY_THERE:
                self._met(LinkEvidence.ANSWERED)
            try:
                body = await answer.read(limit=MAX_DOCUMENT, idle_timeout=self._timeout)
            except TooLong as error:
                raise Unreachable(f"{path}: a document {error}") from error
        self._received(len(body))
        return FetchedDocument(answer.status, answer.headers, body)
