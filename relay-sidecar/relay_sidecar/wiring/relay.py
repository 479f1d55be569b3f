"""One relay, put together: what moves streams, what keeps them, and what answers from them.

Owns the order in which the parts come up and what is told about all of them together. Answers
before the first contact with upstream: what the last run kept is there at once.
"""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import msgspec

from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.apimachinery.resources import known_fields
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.apimachinery.watch_events import Failure
from edge_sidecars.kubeapi import ApiTransport, Credentials, Unreachable
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.metrics import Metric
from edge_sidecars.runtime.values import BadInput
from edge_sidecars.runtime.version import VERSION
from edge_sidecars.walstore.directory import DirectoryInUse
from relay_sidecar.access.admission import Access
from relay_sidecar.access.own import OwnAccess
from relay_sidecar.config.config import Config
from relay_sidecar.config.preload import Preload
from relay_sidecar.core.link import UNAUTHORIZED, UpstreamLink
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.documents import documents, schemas
from relay_sidecar.documents.document_source import DocumentSource
from relay_sidecar.documents.documents import Documents
from relay_sidecar.documents.prefetch import prefetch
from relay_sidecar.documents.schemas import Schemas
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.stream_journal import StreamJournal, everything, restore
from relay_sidecar.streams.streams import Streams
from relay_sidecar.streams.sweep import sweep
from relay_sidecar.telemetry.metrics import RelayCounters, measure
from relay_sidecar.telemetry.status import (
    JournalStatus,
    RelayStatus,
    StreamState,
    StreamStatus,
    UpstreamLinkStatus,
)
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.list_watch import UpstreamSource
from relay_sidecar.upstream.proxy import Proxy
from relay_sidecar.upstream.reflectors import Reflectors
from relay_sidecar.web.api import Api
from relay_sidecar.web.discovery import Discovery
from relay_sidecar.web.gets import Gets
from relay_sidecar.web.lists import Lists
from relay_sidecar.web.read_context import Reading
from relay_sidecar.web.watches import Watches
from relay_sidecar.web.writes import Writes
from relay_sidecar.wiring.limits import limits_of, settings_of

# Seconds for which the first requests wait to learn whether there is an upstream.
FIRST_VERDICT = 0.3
# Seconds; the limit of one probe.
PROBE_TIMEOUT = 0.9
# Seconds between two looks at which version of a group upstream prefers.
PRELOAD_RETRY = 0.5
# Seconds; as a stream asks that was refused.
PRELOAD_INTERVAL = 60.0
# Seconds; what has not changed costs some hundred bytes.
DOCUMENTS_INTERVAL = 300.0

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Relay:
    """`spawn` runs a coroutine whose failure ends the process."""

    def __init__(
        self,
        config: Config,
        transport: ApiTransport,
        probe: LinkProbe,
        access: Access,
        journal: Journal,
        saved: Saved,
        *,
        spawn: Spawn,
    ) -> None:
        self.counters = RelayCounters()
        self._config = config
        self._transport = transport
        self._journal = journal
        self._note = saved.note
        self._spawn = spawn
        self._started_at = time.monotonic()
        self._lack = "starting"
        self._probe = probe
        self._access = access
        probe.on_change = self._link_changed
        stream_journal = StreamJournal(journal)
        source = UpstreamSource(
            transport,
            met=self._probe.met,
            authenticated=self._probe.authenticated,
            received=self._received,
        )
        self._reflectors = Reflectors(
            source, stream_journal, probe, spawn=spawn, request_timeout=config.request_timeout
        )
        self._streams = Streams(
            self._reflectors, MinResourceVersion(), limits_of(config), self.counters
        )
        self._reflectors.on_refused = self._refused
        self._reflectors.on_back = self._went_back
        probe.on_standstill = self._reflectors.doubt
        self._reflectors.has_room = self._has_room
        self._stream_journal = stream_journal
        restore(self._streams, saved, now=time.monotonic(), wall=time.time())
        self._documents = Documents(journal, saved.kept.get(documents.SPACE, {}))
        self._document_source = DocumentSource(
            transport,
            timeout=config.request_timeout,
            met=self._probe.met,
            authenticated=self._probe.authenticated,
            received=self._received,
        )
        self._schemas = Schemas(
            self._documents,
            self._document_source,
            journal,
            saved.kept.get(schemas.SPACE, {}),
            held=lambda: {stream.scope.resource for stream in self._streams},
            changed=self._schemas_changed,
        )
        for records in (
            lambda: everything(self._streams),
            self._documents.records,
            self._schemas.records,
        ):
            journal.rewrite_from(records)
        self._link_up = asyncio.Event()
        # Group versions of custom resources of which there is, or was, a stream.
        self._custom: set[str] = set()
        self._reflectors.on_start = self._started
        proxy = Proxy(transport, access, probe, connect_timeout=config.request_timeout)
        reading = Reading(
            self._streams,
            self._streams.floor,
            proxy,
            self._schemas,
            stream_journal,
            settings_of(config),
        )
        self.api = Api(
            access,
            reading,
            Discovery(self._documents, proxy, timeout=config.request_timeout),
            link_known=partial(probe.known, FIRST_VERDICT),
            lists=Lists(reading),
            gets=Gets(reading),
            watches=Watches(reading, chance=random.random),
            writes=Writes(reading),
        )

    @classmethod
    async def open(
        cls, config: Config, credentials: Credentials, stack: AsyncExitStack, *, spawn: Spawn
    ) -> "Relay":
        """Raises `BadInput`."""
        try:
            journal = await Journal.open(config.data_dir)
        except DirectoryInUse as error:
            raise BadInput(f"--data-dir {config.data_dir}: {error}") from error
        stack.push_async_callback(journal.close)
        saved = await journal.load()
        transport = ApiTransport(credentials, user_agent=f"relay-sidecar/{VERSION}")
        stack.push_async_callback(transport.close)
        link = UpstreamLink(probe_interval=config.probe_interval, probe_timeout=PROBE_TIMEOUT)
        probe = LinkProbe(transport, link)
        access = await _access(config, transport, journal, saved, probe, stack, spawn)
        return cls(config, transport, probe, access, journal, saved, spawn=spawn)

    def start(self) -> None:
        """The listener is open."""
        self._lack = ""
        self._spawn(self._probe.run())
        self._spawn(sweep(self._streams, self._stream_journal))
        self._spawn(self._fetch_documents())
        self._spawn(self._schemas.run())
        for wanted in self._config.preload:
            self._spawn(self._preload(wanted))

    def measured(self) -> list[Metric]:
        return measure(self.status(), self.counters)

    async def _preload(self, wanted: Preload) -> None:
        """Keeps its stream open, once it is known which version upstream prefers: also while nobody
        reads it, and again where upstream refused it or there was no room."""
        version = wanted.version or ("v1" if not wanted.group else self._preferred(wanted.group))
        while version is None:
            await asyncio.sleep(PRELOAD_RETRY)
            version = self._preferred(wanted.group)
        while True:
            with suppress(Refused):
                self._streams.open(wanted.scope(version), now=time.monotonic())
            await asyncio.sleep(min(PRELOAD_INTERVAL, max(self._config.idle_timeout / 4, 0.1)))

    def _preferred(self, group: str) -> str | None:
        document = self._documents.recall(f"/apis/{group}", documents.JSON)
        if document is None:
            return None
        try:
            return msgspec.json.decode(
                document.body(), type=_PreferredGroup
            ).preferred_version.version
        except ValueError:
            return None

    async def _fetch_documents(self) -> None:
        """What kubectl needs while upstream is out of reach."""
        while True:
            await self._link_up.wait()
            # Those of built-in ones are megabytes, and come with the API server's release.
            held = {
                stream.scope.resource.api_version
                for stream in self._streams
                if known_fields(stream.scope.resource) is None
            }
            with suppress(Unreachable):
                await prefetch(self._documents, self._document_source, held)
            await asyncio.sleep(DOCUMENTS_INTERVAL)

    async def _schemas_changed(self, resources: frozenset[ResourceName]) -> None:
        """Returns when new lists are kept. Raises `Unreachable` where they cannot be had now."""
        streams = [stream for resource in resources for stream in self._streams.of(resource)]
        before = {stream: stream.lists for stream in streams}
        for stream in streams:
            self._reflectors.relist(stream)
            self._reflectors.start(stream)
        for stream in streams:
            is_new = partial(_has_listed, stream, before[stream])
            if not await stream.until(is_new, timeout=self._config.request_timeout):
                raise Unreachable(f"{stream.scope} could not be listed again")

    def _started(self, stream: Stream) -> None:
        """The schema of a custom resource is watched from the first stream on."""
        group_version = stream.scope.resource.api_version
        if known_fields(stream.scope.resource) is None and group_version not in self._custom:
            self._custom.add(group_version)
            self._schemas.wake()

    def status(self) -> RelayStatus:
        config, journal = self._config, self._journal
        return RelayStatus(
            version=VERSION,
            uptime=time.monotonic() - self._started_at,
            lack=self._lack,
            access="caller" if config.asks_callers else "own",
            link=UpstreamLinkStatus(
                server=self._transport.url,
                state=self._probe.state,
                down_for=self._probe.down_for,
                outages=self._probe.outages,
            ),
            journal=JournalStatus(
                directory=None if config.data_dir is None else str(config.data_dir),
                failure=journal.failure,
                note=self._note,
            ),
            streams=[self._stream_status(stream) for stream in self._streams],
            watchers=self._streams.watchers,
            max_watchers=config.max_watchers,
            max_objects=config.max_objects,
        )

    def _stream_status(self, stream: Stream) -> StreamStatus:
        scope, collection = stream.scope, stream.collection
        is_live = self._streams.is_live(stream)
        age = 0.0 if is_live else max(time.time() - self._streams.confirmed_at(stream), 0.0)
        return StreamStatus(
            resource=str(scope.resource),
            namespace=scope.namespace,
            label_selector=str(scope.labels),
            field_selector=str(scope.fields),
            state=self._state(stream, is_live=is_live),
            refusal=stream.refusal.message if stream.refusal else "",
            objects=len(collection.objects),
            size_bytes=collection.size_bytes,
            resource_version=stream.version if collection.is_synced else None,
            age=age if collection.is_synced else None,
            watchers=stream.watchers,
        )

    def _state(self, stream: Stream, *, is_live: bool) -> StreamState:
        if is_live:
            return "live"
        if not self._reflectors.runs(stream):
            return "idle"
        return "catching up" if self._probe.is_up else "offline"

    def _link_changed(self, is_up: bool) -> None:
        self.counters.link_changes += 1
        if not is_up:
            if not self._probe.is_relayed:
                self._transport.abort()
            self._link_up.clear()
        else:
            self._link_up.set()
            self._schemas.wake()
        self._access.link(is_up)
        self._reflectors.link(is_up)
        for stream in self._streams:
            stream.nudge()

    def _went_back(self, resource: ResourceName, version: int, but: Stream | None) -> None:
        streams, keys = self._streams.went_back(resource, version, but)
        if but is not None:
            streams.append(but)
        self._stream_journal.went_back(resource, streams, keys)

    def _received(self, size: int) -> None:
        self.counters.bytes_received += size

    def _refused(self, stream: Stream, failure: Failure) -> None:
        # Of its credentials, the link's probe tells once for all streams.
        if failure.code != UNAUTHORIZED and sparing.allows(stream.scope, failure.code):
            logger.warning(
                "upstream refuses a stream",
                extra=fields(stream=stream.scope, status=failure.code, why=failure.message),
            )
        if self._streams.refused(stream, failure, now=time.monotonic()):
            self._spawn(self._stream_journal.deleted(stream))

    def _has_room(self, more: int) -> bool:
        return self._streams.objects + more <= self._config.max_objects


def _has_listed(stream: Stream, before: int) -> bool:
    return stream.lists > before


class _PreferredVersion(msgspec.Struct):
    version: str


class _PreferredGroup(msgspec.Struct, rename="camel"):
    preferred_version: _PreferredVersion


async def _access(
    config: Config,
    transport: ApiTransport,
    journal: Journal,
    saved: Saved,
    probe: LinkProbe,
    stack: AsyncExitStack,
    spawn: Spawn,
) -> Access:
    if not config.asks_callers:
        return OwnAccess(
            config.listen, allowed_hosts=config.allowed_hosts, token_file=config.local_token_file
        )
    from relay_sidecar.access.access_reviews import Reviews
    from relay_sidecar.access.caller import SPACE, CallerAccess

    access = await CallerAccess.open(
        Reviews(transport, timeout=config.request_timeout),
        journal,
        saved.kept.get(SPACE, {}),
        is_up=lambda: probe.may_be_up,
        heard_at=lambda: probe.heard_at,
        ttl=config.access_ttl,
        offline_ttl=config.access_offline_ttl,
    )
    stack.push_async_callback(access.close)
    spawn(access.run())
    return access
