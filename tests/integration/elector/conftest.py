"""Fixtures for electors as real processes against a real kube-apiserver."""

from collections.abc import Iterator

import pytest

from tests.integration.elector.pair import Pair
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.fleet import Fleet


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """The name of a fresh namespace."""
    return control_plane.create_namespace()


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str) -> Iterator[Fleet]:
    """No pods yet; stops those that the test adds."""
    with Fleet(control_plane, namespace) as it:
        yield it


@pytest.fixture(scope="module")
def pair(control_plane: ControlPlane) -> Iterator[Pair]:
    with Fleet(control_plane, control_plane.create_namespace()) as fleet:
        it = Pair(fleet)
        yield it
        for pod in (it.leader, it.standby):
            assert "Traceback" not in pod.log_text()
