"""A kept client asks over one connection, and over another one after one that failed."""

from contextlib import closing
from http import HTTPStatus

import pytest

from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy

pytestmark = pytest.mark.long

PATH = "/api/v1/namespaces/default"


def test_one_connection_serves_many_requests_and_another_one_those_after_a_cut(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    kept = KeptClient(control_plane.host, fault_proxy.port, control_plane.tls())
    with closing(kept):
        for _ in range(3):
            status, found = kept.get(PATH)
            assert (status, found["metadata"]["name"]) == (HTTPStatus.OK, "default")
        assert fault_proxy.traffic().connections == 1
        fault_proxy.black_hole()
        with pytest.raises(OSError, match="timed out"):
            kept.get(PATH, timeout=0.5)
        fault_proxy.heal()
        assert kept.get(PATH)[0] == HTTPStatus.OK
        assert fault_proxy.traffic().connections == 2
        fault_proxy.reset()
        fault_proxy.heal()
        with pytest.raises(OSError, match=r"."):
            kept.get(PATH)
        assert kept.get(PATH)[0] == HTTPStatus.OK
