"""The door: with `--endpoint-view`, EndpointSlices as this node's own verdicts have them."""

import random
from dataclasses import replace

from relay_sidecar.endpoint_view.view_api import BuiltInFields, EndpointViewApi
from relay_sidecar.endpoint_view.view_status import document, measured
from relay_sidecar.endpoint_view.view_stream import SPACE, EndpointView
from relay_sidecar.endpoint_view.view_version import MAX_JUMP
from relay_sidecar.features import Hooks, Parts, RoomListener
from relay_sidecar.journal.journal import Journal
from relay_sidecar.upstream.messages import NoUpstream
from relay_sidecar.web.reads.freshness import unreachable
from relay_sidecar.web.reads.reads import Reads


async def open_room(parts: Parts) -> Hooks:
    config, probe, verdicts = parts.config, parts.probe, parts.features.verdicts
    assert config.endpoint_view is not None
    assert verdicts is not None
    view = EndpointView(
        parts.streams,
        verdicts,
        parts.journal,
        parts.saved.kept.get(SPACE, {}),
        cut_since=lambda: probe.link.heard_at if probe.link.is_known and not probe.is_up else None,
        chance=lambda: random.randrange(1, MAX_JUMP),
    )
    verdicts.on_line.append(view.kick)
    access = parts.access.access
    reads = Reads(
        access,
        NoUpstream(unreachable),
        view.streams,
        BuiltInFields(),
        Journal(None),
        replace(parts.settings, reads_cache=True),
    )
    api = EndpointViewApi(parts.api, access, reads, view, parts.streams)
    return Hooks(
        size=lambda: view.streams.size,
        status=lambda: {"endpointView": document(view.status())},
        metrics=lambda: measured(view.status()),
        listeners=[RoomListener(config.endpoint_view, api.handle)],
        run=[view.run],
    )
