"""What the relay refuses is told, but never at the rate at which strangers ask."""

import logging

import pytest
from aiohttp.test_utils import make_mocked_request

from edge_sidecars.apimachinery.status import Status
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.web.responses import MOST, Refusals


def test_different_requests_are_a_few_lines_and_all_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = RelayCounters()
    refusals = Refusals(counters, are_logged=True, is_link_open=lambda: True)
    paths = [f"/apis/g{at}.example.com/v1/namespaces/x/things{at}" for at in range(5 * MOST)]
    # Made before, which takes longer than to refuse them.
    requests = [make_mocked_request("GET", path) for path in paths]
    with caplog.at_level(logging.INFO, logger="edge-sidecars"):
        for number, request in enumerate(requests):
            refusals.refused(request, Status(code=403, reason=f"Why{number}", message="no"))
    assert 1 <= len(caplog.records) <= MOST
