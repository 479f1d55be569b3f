"""Whether a pod can take the Lease, by what the API server says of it."""

import pytest

from elector_sidecar.core.moves.candidate_pods import LEASE_ANNOTATION, unfit

RUNNING = {"phase": "Running"}


@pytest.mark.parametrize(
    ("metadata", "status", "why"),
    [
        ({"name": "a"}, RUNNING, ""),
        ({"name": "a", "annotations": {LEASE_ANNOTATION: "shop"}}, RUNNING, ""),
        ({"name": "a", "annotations": {LEASE_ANNOTATION: "mail"}}, RUNNING, "candidate for mail"),
        ({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, RUNNING, "being deleted"),
        ({"name": "a"}, {"phase": "Pending"}, "its phase is Pending"),
        ({"name": "a"}, None, "its phase is None"),
    ],
)
def test_a_pod_that_cannot_lead_is_named_with_its_reason(
    metadata: dict[str, object], status: dict[str, str] | None, why: str
) -> None:
    found = unfit({"metadata": metadata, "status": status}, "shop")
    assert why in found
    assert bool(found) is bool(why)


def test_what_is_no_pod_says_nothing() -> None:
    assert unfit("?", "shop") == ""
