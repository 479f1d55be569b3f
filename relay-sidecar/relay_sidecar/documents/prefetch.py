"""Asks upstream for the documents that clients will need while it is out of reach.

Guarantees: what has not changed is not sent again, where upstream can tell (ETags of discovery and
of OpenAPI's documents), and is not asked for, where discovery shows that it has not; /openapi/v2
and the documents of group versions that were not named are not asked for. Does not know how a
request is made nor when it is time.
"""

from collections.abc import Iterable
from http import HTTPStatus

from edge_sidecars.apimachinery.discovery import AGGREGATED, group_version_paths
from edge_sidecars.apimachinery.objects import Malformed
from relay_sidecar.documents.document_source import DocumentFetcher
from relay_sidecar.documents.documents import JSON, DocumentCache

# As kubectl asks: servers before 1.27 know the last only.
ACCEPT = ",".join((*AGGREGATED, JSON))


async def prefetch(
    documents: DocumentCache, upstream: DocumentFetcher, group_versions: Iterable[str] = ()
) -> None:
    """`group_versions` ("v1", "apps/v1"): whose OpenAPI documents are wanted. Raises
    `kubeapi.Unreachable`."""
    await refresh(documents, upstream, "/version")
    has_changed = await _refresh_discovery(documents, upstream, "/api")
    if await _refresh_discovery(documents, upstream, "/apis") or has_changed:
        has_changed = True
    # The lists of versions have no ETag, nor has OpenAPI's index: with discovery, they change.
    for path in ("/api", "/openapi/v3"):
        if has_changed or documents.recall(path, JSON) is None:
            await refresh(documents, upstream, path)
    for group_version in group_versions:
        await refresh(documents, upstream, openapi_path(group_version))


async def refresh(documents: DocumentCache, upstream: DocumentFetcher, path: str) -> bool:
    """Asks for plain JSON; whether it is another than before. Raises `kubeapi.Unreachable`."""
    return await _refresh(documents, upstream, path, JSON, known=(JSON,))


def openapi_path(group_version: str) -> str:
    return f"/openapi/v3/{'apis' if '/' in group_version else 'api'}/{group_version}"


async def _refresh_discovery(
    documents: DocumentCache, upstream: DocumentFetcher, root: str
) -> bool:
    has_changed = await _refresh(documents, upstream, root, ACCEPT, known=AGGREGATED)
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
    upstream: DocumentFetcher,
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
