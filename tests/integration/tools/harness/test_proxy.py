"""Each fault of the proxy does to real clients of a real API server what its name says."""

from __future__ import annotations

import http.client
import os
import select
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from tests.integration.tools.harness.leases import lease, leases_path
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.observers.observer import wait_for

pytestmark = pytest.mark.long

# Seconds after which a test client gives up on an answer that must not come; and of one that must,
# on a machine that is busy with other tests.
PATIENCE = 0.5
TIMEOUT = 20.0


def holder(control_plane: ControlPlane, namespace: str) -> str:
    """Who holds the Lease "a", asked without the proxy."""
    body = control_plane.admin.get(f"{leases_path(namespace)}/a")[1]
    identity: str = body["spec"]["holderIdentity"]
    return identity


def create_lease(control_plane: ControlPlane, namespace: str) -> str:
    """Creates the Lease "a" held by "x", without the proxy; returns its resource version."""
    body = lease("a", holder_identity="x")
    status, created = control_plane.admin.post(leases_path(namespace), body)
    assert status == 201
    version: str = created["metadata"]["resourceVersion"]
    return version


@contextmanager
def keep_alive_connection(
    control_plane: ControlPlane, proxy: FaultProxy
) -> Iterator[http.client.HTTPSConnection]:
    """A connection through the proxy on which one request was answered already."""
    context = ssl.create_default_context(cafile=str(control_plane.ca_bundle))
    connection = http.client.HTTPSConnection(LOOPBACK, proxy.port, context=context, timeout=TIMEOUT)
    with closing(connection):
        connection.request("GET", "/version")
        assert connection.getresponse().read()
        yield connection


def assert_reset(connection: http.client.HTTPSConnection) -> None:
    """Asks the socket itself: Python's TLS layer shows a reset as an end of the stream."""
    select.select([connection.sock], [], [], TIMEOUT)
    with pytest.raises(ConnectionResetError):
        os.read(connection.sock.fileno(), 1)


def assert_silent(connection: http.client.HTTPSConnection) -> None:
    connection.sock.settimeout(PATIENCE)
    with pytest.raises(TimeoutError):
        connection.sock.recv(1)
    connection.sock.settimeout(TIMEOUT)


@contextmanager
def unanswered(proxy: FaultProxy, ask: Callable[[], object]) -> Iterator[None]:
    """A request whose answer the proxy has lost, and whose client waits for it in vain. At the end
    of the block the proxy is healed, which resets the connection."""
    lost = proxy.traffic().lost_responses
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        try:
            wait_for(
                lambda: proxy.traffic().lost_responses > lost,
                timeout=TIMEOUT,
                what="a lost response",
            )
            with pytest.raises(TimeoutError):
                asked.result(PATIENCE)
            yield
        finally:
            proxy.heal()
        with pytest.raises(ConnectionError):
            asked.result(TIMEOUT)


def test_refuse_closes_the_port_and_resets_what_is_open(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    client = control_plane.client(port=fault_proxy.port)
    with keep_alive_connection(control_plane, fault_proxy) as existing:
        fault_proxy.refuse()
        assert_reset(existing)
    with pytest.raises(ConnectionRefusedError):
        client.get("/readyz")
    fault_proxy.heal()
    assert client.get("/readyz")[0] == 200


def test_a_black_hole_keeps_connections_and_bytes_until_it_is_healed(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    client = control_plane.client(port=fault_proxy.port)
    with keep_alive_connection(control_plane, fault_proxy) as existing:
        fault_proxy.black_hole()
        before = fault_proxy.traffic()
        existing.request("GET", "/version")
        assert_silent(existing)
        with pytest.raises(TimeoutError):
            client.get("/readyz", timeout=PATIENCE)
        after = fault_proxy.traffic()
        assert after.request_bytes == before.request_bytes
        assert after.response_bytes == before.response_bytes
        fault_proxy.heal()
        assert existing.getresponse().status == 200
    assert client.get("/readyz")[0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_write_is_applied_though_its_response_is_lost(
    control_plane: ControlPlane,
    fault_proxy: FaultProxy,
    namespace: str,
    version: ssl.TLSVersion,
) -> None:
    resource_version = create_lease(control_plane, namespace)
    rule = {"apiGroups": ["*"], "resources": ["leases"], "verbs": ["update"]}
    control_plane.kubeconfig_for(namespace, "candidate", [rule])
    context = ssl.create_default_context(cafile=str(control_plane.ca_bundle))
    context.minimum_version = context.maximum_version = version
    token = control_plane.new_token(namespace, "candidate")
    client = AdminClient(LOOPBACK, fault_proxy.port, context, token=token)
    fault_proxy.lose_response()
    body = lease("a", holder_identity="y", resource_version=resource_version)
    path = f"{leases_path(namespace)}/a"
    with unanswered(fault_proxy, lambda: client.put(path, body, timeout=TIMEOUT)):
        assert holder(control_plane, namespace) == "y"
    assert fault_proxy.traffic().lost_responses == 1
