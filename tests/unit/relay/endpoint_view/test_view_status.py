"""What /status and /metrics show of the endpoint view."""

from edge_sidecars.runtime.metrics import render
from relay_sidecar.endpoint_view.view_status import EndpointViewStatus, document, measured
from tests.unit.relay.test_metrics import samples


def test_endpoint_view_says_how_many_endpoints_it_shows_otherwise() -> None:
    view = EndpointViewStatus(
        has_verdicts=True, silent=3, kept=2, changes=7, resource_version=(5 << 24) + 1, watchers=4
    )
    assert samples(render(measured(view))) == {
        "relay_endpoint_view_verdicts": 1,
        'relay_endpoint_view_endpoints{as="silent"}': 3,
        'relay_endpoint_view_endpoints{as="kept"}': 2,
        "relay_endpoint_view_changes_total": 7,
        "relay_endpoint_view_watchers": 4,
    }
    assert document(view) == {
        "hasVerdicts": True,
        "silentEndpoints": 3,
        "keptEndpoints": 2,
        "changes": 7,
        "resourceVersion": "83886081",
        "watchers": 4,
    }
