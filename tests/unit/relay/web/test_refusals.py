"""What the relay refuses is told, but never at the rate at which strangers ask."""

import logging

import pytest
from aiohttp.test_utils import make_mocked_request

from edge_sidecars.apimachinery.status import Status
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.web.refusals import MOST, Refusals


def test_two_thousand_different_requests_are_a_few_lines_and_all_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = RelayCounters()
    refusals = Refusals(counters, are_logged=True, is_link_open=lambda: True)
    with caplog.at_level(logging.INFO, logger="edge-sidecars"):
        for number in range(2000):
            path = f"/apis/g{number}.example.com/v1/namespaces/x/things{number}"
            request = make_mocked_request("GET", path)
            refusals.refused(request, Status(code=403, reason=f"Why{number}", message="no"))
    assert 1 <= len(caplog.records) <= MOST
