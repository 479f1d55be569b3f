"""Fixtures for electors as real processes against the real API server."""

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.pods.fleet import Fleet


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str) -> Iterator[Fleet]:
    """No pods yet; stops those that the test adds."""
    with Fleet(control_plane, namespace) as it:
        yield it
