"""With `--endpoint-view`: what follows EndpointSlices and verdicts, and what serves them. Imported
only there."""

import random
from collections.abc import Callable
from dataclasses import replace

from relay_sidecar.access.admission import Access
from relay_sidecar.config.config import Config
from relay_sidecar.core.verdicts import VerdictSource
from relay_sidecar.endpoint_view.core.view_version import MAX_JUMP
from relay_sidecar.endpoint_view.view_api import BuiltInFields, EndpointViewApi
from relay_sidecar.endpoint_view.view_stream import SPACE, EndpointView
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.web.api import Api
from relay_sidecar.web.reads.freshness import ReadSettings, unreachable
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.web.upstream import NoUpstream


def endpoint_view(
    config: Config,
    verdicts: VerdictSource,
    on_line: list[Callable[[], None]],
    api: Api,
    access: Access,
    streams: Streams,
    journal: Journal,
    saved: Saved,
    probe: LinkProbe,
    settings: ReadSettings,
) -> EndpointViewApi:
    """`api`, `access`, `streams`, `journal`: the relay's ordinary ones."""
    view = EndpointView(
        streams,
        verdicts,
        journal,
        saved.kept.get(SPACE, {}),
        cut_since=lambda: probe.link.heard_at if probe.link.is_known and not probe.is_up else None,
        chance=lambda: random.randrange(1, MAX_JUMP),
    )
    on_line.append(view.kick)
    settings = replace(settings, reads_cache=True)
    reads = Reads(
        access, NoUpstream(unreachable), view.streams, BuiltInFields(), Journal(None), settings
    )
    return EndpointViewApi(api, access, reads, view, streams)
