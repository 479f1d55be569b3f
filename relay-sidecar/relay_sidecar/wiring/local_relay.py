"""`--origin local`, put together: the origin, its streams, and the API that answers from them."""

import random
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.local_apiserver.core.api_errors import not_served
from edge_sidecars.local_apiserver.local_apiserver import Origin
from edge_sidecars.local_apiserver.storage import Unusable
from edge_sidecars.runtime.values import BadInput
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.walstore.directory import DirectoryInUse
from relay_sidecar.access.own import OwnAccess
from relay_sidecar.config.config import Config
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream_journal import StreamJournal
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.telemetry.status import (
    JournalStatus,
    UpstreamLinkStatus,
)
from relay_sidecar.upstream.buffered_response import BufferedResponse
from relay_sidecar.web.gets import Gets
from relay_sidecar.web.lists import Lists
from relay_sidecar.web.local_api import LocalApi, NoReflectors
from relay_sidecar.web.read_context import Reading
from relay_sidecar.web.watches import Watches
from relay_sidecar.wiring.limits import limits_of, settings_of
from relay_sidecar.wiring.report import RelayReport


class LocalRelay:
    def __init__(self, config: Config, origin: Origin) -> None:
        streams = Streams(
            lambda _: NoReflectors(), MinResourceVersion(), limits_of(config), RelayCounters()
        )
        reading = Reading(
            streams,
            streams.floor,
            _NoUpstream(),
            _LocalFields(origin),
            # All objects are in the origin.
            StreamJournal(Journal(None)),
            settings_of(config),
        )
        self.api = LocalApi(
            OwnAccess(
                config.listen,
                allowed_hosts=config.allowed_hosts,
                token_file=config.local_token_file,
            ),
            reading,
            origin,
            lists=Lists(reading),
            gets=Gets(reading),
            watches=Watches(reading, chance=random.random),
        )
        self.report = RelayReport(
            config,
            streams,
            link=lambda: UpstreamLinkStatus(server=None, state="up", down_for=None),
            journal=lambda: JournalStatus(
                directory=None if config.data_dir is None else str(config.data_dir),
                failure=origin.failure,
                note=None,
            ),
        )

    @classmethod
    async def open(
        cls,
        config: Config,
        stack: AsyncExitStack,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> "LocalRelay":
        """Raises `BadInput`."""
        try:
            origin = await Origin.open(config.data_dir)
        except (Unusable, DirectoryInUse) as error:
            raise BadInput(f"--data-dir {config.data_dir}: {error}") from error
        stack.push_async_callback(origin.close)
        spawn(origin.run())
        return cls(config, origin)

    def start(self) -> None:
        """The listener is open."""
        self.report.lack = ""


class _NoUpstream:
    """There is no upstream to ask."""

    is_up = False
    is_relayed = False

    async def fetch(
        self, request: web.BaseRequest, *, accept: str | None, header_timeout: float
    ) -> BufferedResponse:
        raise not_served()

    async def stream(
        self,
        request: web.BaseRequest,
        *,
        accept: str | None,
        header_timeout: float,
        idle_timeout: float,
        may_pass: Callable[[bytes], bool],
        passed: Callable[[bytes], None],
    ) -> web.StreamResponse | BufferedResponse:
        raise not_served()

    async def write(
        self, request: web.BaseRequest, *, accept: str | None, header_timeout: float
    ) -> BufferedResponse:
        raise not_served()

    async def forward(self, request: web.BaseRequest) -> web.StreamResponse:
        raise not_served()


class _LocalFields:
    """What can be selected by, the origin knows of each resource."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    async def published(self, resource: ResourceName) -> frozenset[str] | None:
        known = self._origin.resource(resource)
        return None if known is None else frozenset(known.selectable)
