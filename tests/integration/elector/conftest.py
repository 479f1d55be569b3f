"""Fixtures for electors as real processes against a real API server.

That is kube-apiserver, unless a test says `@ON_BOTH` (see api_servers.py): then it runs on each.
"""

from collections.abc import Iterator

import pytest

from tests.integration.elector.api_servers import KUBE
from tests.integration.elector.pair import Pair
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.pods.fleet import Fleet


@pytest.fixture(scope="session")
def local_apiserver() -> Iterator[LocalApiServerProcess]:
    """A running one, shared: who stops or freezes it undoes that."""
    with LocalApiServerProcess(is_recorded=True) as server:
        yield server


@pytest.fixture
def api_server(request: pytest.FixtureRequest) -> ApiServer:
    """The one that the test is run on: each starts when the first test needs it."""
    server: ApiServer = request.getfixturevalue(getattr(request, "param", KUBE))
    return server


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    """The name of a fresh namespace."""
    return api_server.create_namespace()


@pytest.fixture
def fleet(api_server: ApiServer, namespace: str) -> Iterator[Fleet]:
    """No pods yet; stops those that the test adds."""
    with Fleet(api_server, namespace) as it:
        yield it


@pytest.fixture(scope="module")
def pair(control_plane: ControlPlane) -> Iterator[Pair]:
    with Fleet(control_plane, control_plane.create_namespace()) as fleet:
        it = Pair(fleet)
        yield it
        for pod in (it.leader, it.standby):
            assert "Traceback" not in pod.log_text()
