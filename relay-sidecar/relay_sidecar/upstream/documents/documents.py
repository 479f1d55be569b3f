"""Discovery, OpenAPI and version: what upstream answered last, for offline use.

Owns which paths are such documents, and which variant of one (JSON, aggregated, protobuf) a client
gets. Guarantees: an answer is one that upstream gave, or follows from a later one in another
form of discovery (`forms`); half an answer or another server's page is not cached; all of it
outlasts a restart. Knows neither requests of clients nor when to ask upstream.
"""

import asyncio
import re
import time
import zlib
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.discovery import AGGREGATED
from edge_sidecars.apimachinery.objects import compact, has_breaks
from edge_sidecars.apimachinery.request.accept import Clause, clauses
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.runtime.formats.media_type import media_type
from edge_sidecars.runtime.log import fields, logger, sparing
from relay_sidecar.core.caching import Staleness
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.upstream.documents import forms
from relay_sidecar.upstream.documents.forms import JSON as JSON
from relay_sidecar.upstream.documents.forms import (
    OVERHEAD,
    PARAMETERS,
    gzipped_of,
    parameters_of,
    variant_of,
)
from relay_sidecar.upstream.documents.forms import CachedDocument as CachedDocument

# Of the journal's `Blob`.
SPACE = "documents"
OK = 200
ROOTS = ("/api", "/apis")
# /openapi/v3 says this of its JSON.
TEXT = "text/plain"
# Bytes from which on packing is not the event loop's business.
LARGE = 64 * 1024
# Bytes of a resource that a document names, as it is read (sys.getsizeof, rounded).
NAMED_BYTES = 300

_DOCUMENT = re.compile(r"/version|/apis?(/[^/]+){0,2}|/openapi/v2|/openapi/v3(/.+)?")
_NO_DOCUMENT = re.compile(r"/api/[^/]+/.*")
_OPENAPI_PROTOBUF = re.compile(
    r"application/com\.github\.proto-openapi\.spec\.v[23]\.v1\.0\+protobuf"
)


NO_LIMIT = 1 << 62
# As the flag that sets the limit is called in the log.
LIMIT_FLAG = "--memory-budget"

# Clients may ask for group versions that there are not; a cluster has some dozens.
MAX_VERSIONS = 1000


class _Resource(Struct):
    name: str
    namespaced: bool = True
    kind: str = ""


class _ResourceList(Struct):
    resources: list[_Resource] = []


class DocumentCache:
    """`saved` is the journal's `SPACE`; `limit`: bytes that OpenAPI's documents take at most."""

    def __init__(
        self, journal: Journal, saved: Mapping[bytes, bytes], *, limit: int = NO_LIMIT
    ) -> None:
        self._journal = journal
        self._limit = limit
        # By path, then by variant.
        self._stored: dict[str, dict[str, CachedDocument]] = {}
        # What follows from what is stored, by the root of discovery; until that changes.
        self._derived: dict[str, forms.Derived] = {}
        # The resources of a group version, by its path, until a document comes: each read asks.
        self._resources: dict[str, dict[str, _Resource]] = {}
        for key, value in saved.items():
            path, _, variant = key.decode().partition(" ")
            document = msgspec.msgpack.decode(value, type=CachedDocument)
            self._stored.setdefault(path, {})[variant] = document

    @property
    def size(self) -> int:
        """Bytes: what upstream sent, and what follows from it."""
        stored = (one for variants in self._stored.values() for one in variants.values())
        named = sum(map(len, self._resources.values()))
        return (
            sum(map(_size, stored))
            + sum(it.size for it in self._derived.values())
            + named * NAMED_BYTES
        )

    @staticmethod
    def is_kept(path: str) -> bool:
        """Whether this is the path of such a document."""
        canonical = _canonical(path)
        return bool(_DOCUMENT.fullmatch(canonical) and not _NO_DOCUMENT.fullmatch(canonical))

    def recall(self, path: str, accept: str) -> CachedDocument | None:
        """What the client likes best of what is there; where it likes none of that, plain JSON."""
        canonical = _canonical(path)
        variants = list(self._stored.get(canonical, {}).values())
        root = next((root for root in ROOTS if _is_below(canonical, root)), None)
        derived = None if root is None else self._derivations(root)
        if derived is not None:
            plain, part = next(filter(_is_plain, variants), None), derived.parts.get(canonical)
            if part is not None and (plain is None or plain.since < part.since):
                variants = [part, *(one for one in variants if one is not plain)]
            if canonical == root:
                variants = [
                    derived.aggregated if one.variant == derived.aggregated.variant else one
                    for one in variants
                ]
        variants.sort(key=_is_plain, reverse=True)
        for clause in clauses(accept or JSON):
            for document in variants:
                if _satisfies(document.content_type, clause):
                    return document
        return variants[0] if variants and _is_plain(variants[0]) else None

    def is_cluster_scoped(self, resource: ResourceName) -> bool:
        """Whether its objects are known to be in no namespace."""
        known = self._named(resource)
        return known is not None and not known.namespaced

    def kind_of(self, resource: ResourceName) -> str:
        """The kind of its objects; "" where discovery does not name it."""
        known = self._named(resource)
        return "" if known is None else known.kind

    def names(self, resource: ResourceName) -> bool:
        """Whether what is kept of discovery names it."""
        return self._named(resource) is not None

    def _named(self, resource: ResourceName) -> _Resource | None:
        path = resource.api_path
        known = self._resources.get(path)
        if known is None:
            document = self.recall(path, JSON)
            known = {} if document is None else _resources(document)
            if len(self._resources) >= MAX_VERSIONS:
                self._resources.clear()
            self._resources[path] = known
        return known.get(resource.plural)

    def stored(self, path: str, content_type: str) -> CachedDocument | None:
        """Exactly this variant, as upstream sent it."""
        return self._stored.get(_canonical(path), {}).get(variant_of(content_type))

    async def remember(
        self, path: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> bool:
        """An answer to a GET; whether it is news. `body` is in the coding that the headers tell."""
        given = {name.lower(): value for name, value in headers.items()}
        canonical, content_type = _canonical(path), given.get("content-type", "")
        coding = given.get("content-encoding", "identity").lower()
        media = media_type(content_type)
        is_json = media == JSON or (media == TEXT and canonical == "/openapi/v3")
        if (
            status != OK
            or not self.is_kept(canonical)
            or not (is_json or _OPENAPI_PROTOBUF.fullmatch(media))
            or coding not in ("identity", "gzip")
        ):
            return False
        variant = variant_of(content_type)
        old = self._stored.get(canonical, {}).get(variant)
        known = None if old is None else old.gzipped
        work = (body, known, coding == "gzip", is_json)
        gzipped = _packed(*work) if len(body) < LARGE else await asyncio.to_thread(_packed, *work)
        if gzipped is None:
            if sparing.allows("no JSON", canonical):
                logger.warning(
                    "upstream sent no JSON", extra=fields(path=canonical, bytes=len(body))
                )
            return False
        now = time.time() - Staleness.read(given.get("age")).seconds
        since = old.since if old is not None and old.gzipped == gzipped else now
        document = CachedDocument(content_type, given.get("etag", ""), gzipped, since, now)
        return await self._store(canonical, variant, document)

    def confirm(self, path: str, content_type: str) -> None:
        """Upstream says that this variant has not changed."""
        variants, variant = self._stored.get(_canonical(path), {}), variant_of(content_type)
        if variant in variants:
            now = time.time()
            variants[variant] = msgspec.structs.replace(variants[variant], confirmed_at=now)
            self._derived.clear()

    def records(self) -> Iterator[Blob]:
        """All of it, for the journal."""
        for path, variants in self._stored.items():
            for variant, document in variants.items():
                yield _record(path, variant, document)

    async def _store(self, path: str, variant: str, document: CachedDocument) -> bool:
        self._resources.clear()
        variants = self._stored.setdefault(path, {})
        old, variants[variant] = variants.get(variant), document
        self._derived.clear()
        if old is not None and old.gzipped == document.gzipped and old.etag == document.etag:
            return False
        outdated: list[str] = []
        if path.startswith("/openapi/") and document.etag:
            # There the ETag is one for all variants, so those that have another are old.
            outdated = [name for name, one in variants.items() if one.etag != document.etag]
            for name in outdated:
                del variants[name]
        evicted = self._evicted()
        written = [] if (path, variant) in evicted else [_record(path, variant, document)]
        await self._journal.commit(
            *written,
            *(_record(path, name, None) for name in outdated),
            *(_record(*place, None) for place in evicted),
        )
        return True

    def _evicted(self) -> list[tuple[str, str]]:
        """Documents of OpenAPI for which there is no room, by path and variant: those that upstream
        confirmed longest ago. Clients work without them; without discovery they do not."""
        found = [
            (document.confirmed_at, path, variant, _size(document))
            for path, variants in self._stored.items()
            if path.startswith("/openapi/")
            for variant, document in variants.items()
        ]
        used, gone = sum(size for *_, size in found), list[tuple[str, str]]()
        for _, path, variant, size in sorted(found):
            if used <= self._limit:
                break
            used -= size
            gone.append((path, variant))
            self._stored[path].pop(variant)
            if not self._stored[path]:
                del self._stored[path]
        if gone and sparing.allows("limit", LIMIT_FLAG):
            logger.warning("a limit is reached", extra=fields(limit=LIMIT_FLAG))
        return gone

    async def drop_unnamed(self, root: str, *, before: float) -> None:
        """What was known of group versions before that wall time, when discovery below `root` was
        asked for, and which that answer contradicts: of a CRD that was deleted, or of a history
        that upstream lost."""
        document = self._discovery(root)
        if document is None or document.confirmed_at < before:
            return
        contradicted = forms.contradicted(root, document, self._below(root), before=before)
        for path in contradicted:
            variants = self._stored.pop(path)
            self._derived.clear()
            self._resources.clear()
            await self._journal.commit(*(_record(path, variant, None) for variant in variants))

    def _discovery(self, root: str) -> CachedDocument | None:
        """The newest of the forms that upstream sent: aggregated, where it aggregates."""
        found = [one for it in AGGREGATED if (one := self.stored(root, it)) is not None]
        return max(found, key=lambda one: one.since) if found else self.stored(root, JSON)

    def _below(self, root: str) -> dict[str, CachedDocument]:
        """The plain lists of groups and group versions, and their schemas, by their paths."""
        found = {}
        for path, variants in self._stored.items():
            if path.startswith((f"{root}/", f"/openapi/v3{root}/")):
                found[path] = max(variants.values(), key=lambda one: one.confirmed_at)
        return found

    def _derivations(self, root: str) -> forms.Derived | None:
        """What follows from the aggregated document and newer lists of group versions."""
        document = self._discovery(root)
        if document is None or not forms.is_aggregated(document):
            return None
        known = self._derived.get(root)
        if known is None:
            lists = {
                path: plain
                for path, variants in self._stored.items()
                if path.startswith(f"{root}/") and (plain := variants.get(JSON)) is not None
            }
            known = self._derived[root] = forms.derived(root, document, lists)
        return known


def _size(document: CachedDocument) -> int:
    return len(document.gzipped) + OVERHEAD


def _resources(document: CachedDocument) -> dict[str, _Resource]:
    try:
        listed = msgspec.json.decode(document.body(), type=_ResourceList)
    except ValueError:
        return {}
    return {one.name: one for one in listed.resources}


def _packed(body: bytes, known: bytes | None, is_gzipped: bool, is_json: bool) -> bytes | None:
    """The body gzipped, JSON without indentation; `known` where that is the same; None where it is
    not what it should be."""
    try:
        plain = zlib.decompress(body, 16 + zlib.MAX_WBITS) if is_gzipped else body
        if is_json:
            msgspec.json.decode(plain, type=msgspec.Raw)
            if has_breaks(plain.rstrip()):
                # kube-apiserver ends what it does not indent with a newline.
                plain, is_gzipped = compact(plain) + b"\n", False
    except (zlib.error, ValueError, RecursionError):
        return None
    if known is not None and zlib.decompress(known, 16 + zlib.MAX_WBITS) == plain:
        return known
    return body if is_gzipped else gzipped_of(plain)


def _record(path: str, variant: str, document: CachedDocument | None) -> Blob:
    value = None if document is None else msgspec.msgpack.encode(document)
    return Blob(SPACE, f"{path} {variant}".encode(), value)


def _canonical(path: str) -> str:
    """Without the query, which names the version of an OpenAPI document that a client expects."""
    return path.partition("?")[0].rstrip("/")


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _is_plain(document: CachedDocument) -> bool:
    """JSON that every client reads."""
    return document.variant in (JSON, TEXT)


def _satisfies(content_type: str, clause: Clause) -> bool:
    main, _, subtype = media_type(content_type).partition("/")
    wanted = {name: clause.parameters[name] for name in PARAMETERS if name in clause.parameters}
    # kube-openapi, handler3/handler.go: "@" is an older spelling of the same.
    of_clause = clause.subtype.replace("@v", ".v")
    return (
        clause.type in ("*", main)
        and of_clause in ("*", subtype)
        and wanted == parameters_of(content_type)
    )
