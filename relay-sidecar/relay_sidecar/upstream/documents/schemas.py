"""The published schemas of custom resources: which fields select, and when a schema has changed.

An object's bytes can change with its schema while its version does not (pruning, defaults), so
that cached objects must be listed anew. Guarantees: a change is reported once for each resource
whose own schema differs, also one that happened while the relay was off; it counts as reported only
when `changed` has returned. Works from what is kept while upstream is out of reach. Built-in
resources, whose schemas come with the API server's release, are not looked at.
"""

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.openapi import PublishedSchema, read_hashes, read_schemas
from edge_sidecars.apimachinery.resources import ResourceName, known_fields
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.upstream.documents.documents import JSON, CachedDocument, DocumentCache
from relay_sidecar.upstream.documents.upkeep import DocumentSource, openapi_path, refresh

# Of the journal's `Blob`.
SPACE = "schemas"
# Seconds.
POLL_INTERVAL = 30.0
INDEX = "/openapi/v3"
# Bytes on the wire for asking whether one document has changed; the index has no ETag.
REVALIDATION = 700
# Bytes of a schema besides the names of its fields: its digest, name and set (sys.getsizeof).
SCHEMA_BYTES = 400

Changed = Callable[[frozenset[ResourceName]], Awaitable[None]]


class KnownSchemas(Struct, frozen=True):
    """Of one group version: the document that was read, and its schemas by plural."""

    edition: str
    schemas: dict[str, PublishedSchema]

    @property
    def size(self) -> int:
        """Bytes."""
        fields = sum(len(field) for it in self.schemas.values() for field in it.fields)
        return SCHEMA_BYTES * (1 + len(self.schemas)) + fields


class Schemas:
    """`held` returns the resources of which objects are cached; `changed` receives those that are
    to be listed anew."""

    def __init__(
        self,
        documents: DocumentCache,
        upstream: DocumentSource,
        journal: Journal,
        saved: Mapping[bytes, bytes],
        *,
        held: Callable[[], Iterable[ResourceName]],
        changed: Changed,
    ) -> None:
        self._documents = documents
        self._upstream = upstream
        self._journal = journal
        self._held = held
        self._changed = changed
        self._known = {
            key.decode(): msgspec.msgpack.decode(value, type=KnownSchemas)
            for key, value in saved.items()
        }
        # Group versions that were asked for since the last poll, and lack what was looked for.
        self._missing: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # Group versions of custom resources of which there is, or was, a stream.
        self._followed: set[str] = set()
        self._woken = asyncio.Event()

    @property
    def size(self) -> int:
        """Bytes, of all that is known."""
        return sum(it.size for it in self._known.values())

    async def published(self, resource: ResourceName) -> frozenset[str] | None:
        """The fields by which a custom resource can be selected besides name and namespace; None
        where they are unknown."""
        group_version = resource.api_version
        if self._schema(resource) is None and group_version not in self._missing:
            async with self._locks[group_version]:
                await self._learn(resource)
        schema = self._schema(resource)
        return None if schema is None else schema.fields

    async def run(self) -> None:
        """Polls for ever."""
        while True:
            self._woken.clear()
            with suppress(Unreachable):
                await self.poll()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL):
                    await self._woken.wait()

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        if is_up:
            self._woken.set()

    def started(self, resource: ResourceName) -> None:
        """A stream of it follows upstream: the schema of a custom resource is watched from the
        first stream on."""
        if known_fields(resource) is None and resource.api_version not in self._followed:
            self._followed.add(resource.api_version)
            self._woken.set()

    async def poll(self) -> None:
        """Looks at the schemas of what is held. Raises `kubeapi.Unreachable`."""
        self._missing.clear()
        custom = {one.api_version for one in self._held() if known_fields(one) is None}
        for group_version in await self._suspects(custom):
            async with self._locks[group_version]:
                await refresh(self._documents, self._upstream, openapi_path(group_version))
                await self._look(group_version)

    def records(self) -> Iterator[Blob]:
        """All that is known, for the journal."""
        for group_version, known in self._known.items():
            yield _record(group_version, known)

    async def _suspects(self, group_versions: set[str]) -> Iterable[str]:
        """Those that may have changed: all, where asking for each costs less than the index."""
        index = self._documents.recall(INDEX, JSON)
        if index is None or len(index.body()) > REVALIDATION * len(group_versions):
            return sorted(group_versions)
        await refresh(self._documents, self._upstream, INDEX)
        index = self._documents.recall(INDEX, JSON)
        try:
            hashes = {} if index is None else read_hashes(index.body())
        except Malformed as error:
            logger.warning("upstream's index of OpenAPI cannot be read", extra=fields(why=error))
            hashes = {}
        return [
            one
            for one in sorted(group_versions)
            if one not in self._known
            or hashes.get(openapi_path(one).removeprefix(f"{INDEX}/"))
            != self._known[one].edition.strip('"')
        ]

    def _schema(self, resource: ResourceName) -> PublishedSchema | None:
        known = self._known.get(resource.api_version)
        return None if known is None else known.schemas.get(resource.plural)

    async def _learn(self, resource: ResourceName) -> None:
        """From what is kept; what is not there, upstream may have published since."""
        group_version = resource.api_version
        await self._look(group_version)
        if self._schema(resource) is None:
            with suppress(Unreachable):
                await refresh(self._documents, self._upstream, openapi_path(group_version))
            await self._look(group_version)
        if self._schema(resource) is None:
            self._missing.add(group_version)

    async def _look(self, group_version: str) -> None:
        """Whether the document that is there is another than the one that was looked at."""
        document = self._documents.recall(openapi_path(group_version), JSON)
        before = self._known.get(group_version)
        if document is None or (before is not None and before.edition == _edition(document)):
            return
        try:
            schemas = await asyncio.to_thread(lambda: read_schemas(document.body()))
        except Malformed as error:
            logger.warning(
                "a document of OpenAPI cannot be read",
                extra=fields(group_version=group_version, why=error),
            )
            return
        differing = () if before is None else _differing(before.schemas, schemas)
        if differing:
            group, _, version = group_version.rpartition("/")
            names = frozenset(ResourceName(group, version, plural) for plural in differing)
            logger.info("schemas changed", extra=fields(resources=", ".join(map(str, names))))
            await self._changed(names)
        known = self._known[group_version] = KnownSchemas(_edition(document), schemas)
        await self._journal.commit(_record(group_version, known))


def _differing(
    before: Mapping[str, PublishedSchema], after: Mapping[str, PublishedSchema]
) -> list[str]:
    """The plurals that both have. What is new holds no objects, and what is gone ends by itself."""
    return [
        plural
        for plural in before.keys() & after.keys()
        if before[plural].digest != after[plural].digest
    ]


def _edition(document: CachedDocument) -> str:
    return document.etag or f"{zlib.crc32(document.body()):08x}"


def _record(group_version: str, known: KnownSchemas) -> Blob:
    return Blob(SPACE, group_version.encode(), msgspec.msgpack.encode(known))
