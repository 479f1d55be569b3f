"""`--origin local`, put together: the origin, its streams, and the API that answers from them."""

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.local_apiserver.core.api_errors import not_served
from edge_sidecars.local_apiserver.local_apiserver import LocalApiServer
from edge_sidecars.local_apiserver.storage import Unusable
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.walstore.files import DirectoryInUse
from relay_sidecar.access.own import OwnAccess
from relay_sidecar.config.config import Config
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.reflector_control import NoReflectors
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.telemetry.status import (
    UpstreamLinkStatus,
)
from relay_sidecar.web.local_api import LocalApi
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.web.upstream import NoUpstream
from relay_sidecar.wiring.limits import limits_of, settings_of
from relay_sidecar.wiring.report import RelayReport


class LocalRelay:
    def __init__(self, config: Config, origin: LocalApiServer) -> None:
        streams = Streams(
            lambda _: NoReflectors(), MinResourceVersion(), limits_of(config), RelayCounters()
        )
        access = OwnAccess(
            config.listen,
            allowed_hosts=config.allowed_hosts,
            token_file=config.local_token_file,
        )
        fields, settings = _LocalFields(origin), settings_of(config)
        # All objects are in the origin.
        reads = Reads(access, NoUpstream(not_served), streams, fields, Journal(None), settings)
        self.api = LocalApi(access, reads, origin)
        self.report = RelayReport(
            config,
            streams,
            link=lambda: UpstreamLinkStatus(server=None, state="up", down_for=None),
            disk_failure=lambda: origin.failure,
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
            origin = await LocalApiServer.open(config.data_dir)
        except (Unusable, DirectoryInUse) as error:
            raise BadInput(f"--data-dir {config.data_dir}: {error}") from error
        stack.push_async_callback(origin.close)
        spawn(origin.run())
        return cls(config, origin)

    def start(self) -> None:
        """The listener is open."""
        self.report.lack = ""


class _LocalFields:
    """What can be selected by, the origin knows of each resource."""

    def __init__(self, origin: LocalApiServer) -> None:
        self._origin = origin

    async def published(self, resource: ResourceName) -> frozenset[str] | None:
        known = self._origin.resource(resource)
        return None if known is None else frozenset(known.selectable)
