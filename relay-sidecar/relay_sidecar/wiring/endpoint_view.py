"""With `--endpoint-view`: what follows EndpointSlices and verdicts, and what serves them. Imported
only there."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from relay_sidecar.access.admission import Access
from relay_sidecar.config.config import Config
from relay_sidecar.core.endpoint_view.view_version import MAX_JUMP
from relay_sidecar.core.pool_sources import PoolSources
from relay_sidecar.endpoint_view.view_stream import SPACE, EndpointView
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.streams.streams import Streams
from relay_sidecar.web.api import Api
from relay_sidecar.web.endpoint_view import BuiltInFields, EndpointViewApi, NoUpstream
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.wiring.limits import settings_of


def endpoint_view(
    streams: Streams, pool: PoolSources, journal: Journal, saved: Saved
) -> EndpointView:
    found = saved.kept.get(SPACE, {})
    return EndpointView(streams, pool, journal, found, chance=lambda: random.randrange(1, MAX_JUMP))


def endpoint_view_api(
    config: Config,
    view: EndpointView,
    api: Api,
    access: Access,
    streams: Streams,
    *,
    link_known: Callable[[], Awaitable[None]],
) -> EndpointViewApi:
    settings = replace(settings_of(config), reads_cache=True, shard_pushdown=False)
    reads = Reads(access, NoUpstream(), view.streams, BuiltInFields(), Journal(None), settings)
    return EndpointViewApi(
        api,
        access,
        reads,
        view,
        streams,
        link_known=link_known,
        logs_refusals=config.log_refusals,
    )
