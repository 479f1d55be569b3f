"""Documents of upstream (discovery, OpenAPI, version), as the relay itself asks for them.

`prefetch` asks for those that clients will need while upstream is out of reach.

Guarantees: one whole answer or `Unreachable`; each answer of an API server is evidence that
the link is there; what has not changed is not sent again, where upstream can tell (ETags of
discovery and of OpenAPI's documents), and is not asked for, where discovery shows that it has not;
/openapi/v2 and the documents of group versions that were not named are not asked for. Does not know
when it is time.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from edge_sidecars.apimachinery.discovery import AGGREGATED, group_version_paths
from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiTransport, Request, TooLong, Unreachable
from relay_sidecar.core.link import LinkEvidence, is_of_api_server
from relay_sidecar.upstream.documents.documents import JSON, DocumentCache

# Bytes; /openapi/v2 of a cluster with hundreds of custom resources.
MAX_DOCUMENT = 64 * 1024 * 1024
# As kubectl asks: servers before 1.27 know the last only.
ACCEPT = ",".join((*AGGREGATED, JSON))


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """`body` in the coding that the headers tell."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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
        """The answer to a GET. Raises `kubeapi.Unreachable`."""
        request = Request(
            "GET",
            path,
            header_timeout=self._timeout,
            connect_timeout=self._timeout,
            headers=headers.items(),
        )
        async with self._transport.send(request) as answer:
            self._authenticated(answer.status)
            if is_of_api_server(answer.status, answer.headers):
                self._met(LinkEvidence.ANSWERED)
            try:
                body = await answer.read(limit=MAX_DOCUMENT, idle_timeout=self._timeout)
            except TooLong as error:
                raise Unreachable(f"{path}: a document {error}") from error
        self._received(len(body))
        return FetchedDocument(answer.status, answer.headers, body)


async def prefetch(
    documents: DocumentCache,
    upstream: DocumentSource,
    group_versions: Iterable[str] = (),
    resources: Iterable[ResourceName] = (),
) -> None:
    """`group_versions` ("v1", "apps/v1"): whose OpenAPI documents are wanted; `resources` are to be
    named by discovery: its aggregated form may be behind by a moment. Raises
    `kubeapi.Unreachable`."""
    await refresh(documents, upstream, "/version")
    has_changed = await _refresh_discovery(documents, upstream, "/api")
    if await _refresh_discovery(documents, upstream, "/apis") or has_changed:
        has_changed = True
    for path in {one.api_path for one in resources if not documents.names(one)}:
        await refresh(documents, upstream, path)
    # The lists of versions have no ETag, nor has OpenAPI's index: with discovery, they change.
    for path in ("/api", "/openapi/v3"):
        if has_changed or documents.recall(path, JSON) is None:
            await refresh(documents, upstream, path)
    for group_version in group_versions:
        await refresh(documents, upstream, openapi_path(group_version))


async def refresh(documents: DocumentCache, upstream: DocumentSource, path: str) -> bool:
    """Asks for plain JSON; whether it is another than before. Raises `kubeapi.Unreachable`."""
    return await _refresh(documents, upstream, path, JSON, known=(JSON,))


def openapi_path(group_version: str) -> str:
    return f"/openapi/v3/{'apis' if '/' in group_version else 'api'}/{group_version}"


async def _refresh_discovery(documents: DocumentCache, upstream: DocumentSource, root: str) -> bool:
    asked_at = time.time()
    has_changed = await _refresh(documents, upstream, root, ACCEPT, known=AGGREGATED)
    await documents.drop_unnamed(root, before=asked_at)
    if any(documents.stored(root, content_type) for content_type in AGGREGATED):
        return has_changed
    # It does not aggregate: each list by itself.
    for path in _lists(documents, root):
        if has_changed or documents.stored(path, JSON) is None:
            await refresh(documents, upstream, path)
    return has_changed


def _lists(documents: DocumentCache, root: str) -> list[str]:
    plain = documents.stored(root, JSON)
    if root == "/api":
        return ["/api/v1"]
    try:
        return [] if plain is None else group_version_paths(plain.body())
    except Malformed:
        return []


async def _refresh(
    documents: DocumentCache,
    upstream: DocumentSource,
    path: str,
    accept: str,
    *,
    known: Iterable[str],
) -> bool:
    headers = {"Accept": accept, "Accept-Encoding": "gzip"}
    stored = (documents.stored(path, content_type) for content_type in known)
    document = next((one for one in stored if one is not None and one.etag), None)
    if document is not None:
        headers["If-None-Match"] = document.etag
    answer = await upstream.fetch(path, headers)
    if answer.status == HTTPStatus.NOT_MODIFIED and document is not None:
        documents.confirm(path, document.content_type)
        return False
    return await documents.remember(path, answer.status, answer.headers, answer.body)
