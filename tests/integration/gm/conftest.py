"""Fixtures of GM's tests: an API server with Sedna's kinds, a namespace with some objects."""

import pytest

from tests.integration.gm.shop import Shop
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.sedna_kinds import install


@pytest.fixture
def shop(control_plane: ControlPlane, namespace: str) -> Shop:
    """A fresh namespace of an API server that has Sedna's kinds."""
    install(control_plane)
    return Shop(control_plane, namespace)
