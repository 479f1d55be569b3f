"""Fixtures: nodes with keepalived, electors and a client, in network namespaces.

Where a program is missing, tests skip on a laptop and fail in CI; where the machine lets us make no
namespaces (not root, a sandbox), they skip: nothing that could be installed would help.
"""

import os
import shutil
from collections.abc import Iterator

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.nemesis.vip.keepalived_nodes import VipTestbed
from tools.nemesis.vip.network import Network, NoNamespaces

PROGRAMS = {"ip": "iproute2", "keepalived": "keepalived", "curl": "curl"}


@pytest.fixture(scope="session")
def namespaces() -> None:
    """This machine has what the tests need."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            message = f"{program} is missing: apt-get install {package}"
            if os.environ.get("CI", "").lower() in ("1", "true"):
                pytest.fail(message)
            pytest.skip(message)
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    try:
        with Network() as network:
            network.add("trial")
    except NoNamespaces as error:
        pytest.skip(f"no network namespaces here: {error}")


@pytest.fixture
def testbed(namespaces: None, control_plane: ControlPlane, namespace: str) -> Iterator[VipTestbed]:
    """Two nodes; at the end no promise was broken."""
    with VipTestbed(control_plane, namespace) as two:
        yield two
        assert two.node_observer.findings() == []


@pytest.fixture
def testbed_of_three(
    namespaces: None, control_plane: ControlPlane, namespace: str
) -> Iterator[VipTestbed]:
    with VipTestbed(control_plane, namespace, nodes=3) as three:
        yield three
        assert three.node_observer.findings() == []
