"""What /status and /metrics show of the endpoint view."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_sidecars.runtime.metrics import Kind, Metric


@dataclass(frozen=True, kw_only=True)
class EndpointViewStatus:
    """`silent`, `kept`: endpoints that are shown not ready, or ready, where upstream says else;
    `changes`: slices that changed without upstream, counted from the start. `resource_version`:
    the view's own, None while upstream's EndpointSlices are unknown."""

    has_verdicts: bool
    silent: int
    kept: int
    changes: int
    resource_version: int | None
    watchers: int


def document(view: EndpointViewStatus) -> Mapping[str, Any]:
    version = view.resource_version
    return {
        "hasVerdicts": view.has_verdicts,
        "silentEndpoints": view.silent,
        "keptEndpoints": view.kept,
        "changes": view.changes,
        "resourceVersion": None if version is None else str(version),
        "watchers": view.watchers,
    }


def measured(view: EndpointViewStatus) -> list[Metric]:
    return [
        Metric(
            "relay_endpoint_view_verdicts",
            Kind.GAUGE,
            "1 if the endpoint view uses verdicts of the pool, 0 if it shows what upstream has.",
            (({}, float(view.has_verdicts)),),
        ),
        Metric(
            "relay_endpoint_view_endpoints",
            Kind.GAUGE,
            "Endpoints that the view shows unlike upstream: silent, as not ready; kept, as ready.",
            (({"as": "silent"}, float(view.silent)), ({"as": "kept"}, float(view.kept))),
        ),
        Metric(
            "relay_endpoint_view_changes_total",
            Kind.COUNTER,
            "Changes of EndpointSlices in the endpoint view that upstream did not make.",
            (({}, float(view.changes)),),
        ),
        Metric(
            "relay_endpoint_view_watchers",
            Kind.GAUGE,
            "Open watches of the endpoint view.",
            (({}, float(view.watchers)),),
        ),
    ]
