"""Each fault of the proxy does to real clients of a real API server what its name says."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.integration.tools.harness.leases import lease, leases_path
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.clients.answer import exchange
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.process import parse_fault
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


def test_a_healthy_proxy_only_counts(control_plane: ControlPlane, fault_proxy: FaultProxy) -> None:
    client = control_plane.client(port=fault_proxy.port)
    for _ in range(3):
        assert client.get("/readyz")[0] == 200
    traffic = fault_proxy.traffic()
    assert traffic.connections == 3
    assert traffic.request_bytes > 3 * len("GET /readyz HTTP/1.1")
    assert traffic.response_bytes > 3 * len("HTTP/1.1 200 OK")
    assert traffic.lost_responses == 0


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


# Python's ssl forgets to close a socket that is reset before its handshake.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_reset_accepts_and_resets(control_plane: ControlPlane, fault_proxy: FaultProxy) -> None:
    client = control_plane.client(port=fault_proxy.port)
    with keep_alive_connection(control_plane, fault_proxy) as existing:
        fault_proxy.reset()
        assert_reset(existing)
    with pytest.raises(ConnectionResetError):
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


def test_a_black_hole_hides_that_the_server_died(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    with keep_alive_connection(control_plane, fault_proxy) as existing:
        fault_proxy.black_hole()
        control_plane.stop_apiserver()
        try:
            assert_silent(existing)
            fault_proxy.heal()
            # Whether it hears of a reset or of an end depends on how the kernel ended the server.
            with suppress(ConnectionResetError, ssl.SSLEOFError):
                assert existing.sock.recv(1) == b""
        finally:
            control_plane.start_apiserver()


def test_delay_holds_both_directions(control_plane: ControlPlane, fault_proxy: FaultProxy) -> None:
    fault_proxy.delay(0.1, jitter=0.02)
    started = time.monotonic()
    assert control_plane.client(port=fault_proxy.port).get("/readyz")[0] == 200
    # The handshake of TLS and the request: two round trips.
    assert 0.4 <= time.monotonic() - started < 5


@contextmanager
def echo_server() -> Iterator[int]:
    """Says back what it hears; the port."""

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # The proxy resets what is open when it is stopped.
            with connection, suppress(ConnectionResetError):
                while data := connection.recv(1024):
                    connection.sendall(data)

    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_one_direction_can_be_delayed_alone_and_many_chunks_travel_at_once() -> None:
    with (
        echo_server() as port,
        FaultProxy(port) as proxy,
        socket.create_connection((LOOPBACK, proxy.port), timeout=5) as client,
    ):
        for apply in (proxy.delay_request, proxy.delay_response):
            apply(0.3)
            # Once more where this machine stood still.
            assert any(_echo_seconds(client) < 0.6 for _ in range(10))


def _echo_seconds(client: socket.socket) -> float:
    """From the first of five chunks, of 0.08 s, to the echo of the last, 0.3 s later at least."""
    started = time.monotonic()
    for number in range(5):
        client.sendall(bytes([number]))
        time.sleep(0.02)
    received = b""
    while len(received) < 5:
        received += client.recv(5)
    seconds = time.monotonic() - started
    assert received == bytes(range(5))
    assert seconds >= 0.38
    return seconds


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


def test_the_response_is_lost_on_an_existing_connection_which_healing_resets(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    with keep_alive_connection(control_plane, fault_proxy) as existing:
        fault_proxy.lose_response()
        existing.request("GET", "/version")
        assert_silent(existing)
        fault_proxy.heal()
        assert_reset(existing)
    assert control_plane.client(port=fault_proxy.port).get("/readyz")[0] == 200


def test_a_reset_can_take_the_place_of_the_response(
    control_plane: ControlPlane, fault_proxy: FaultProxy, namespace: str
) -> None:
    resource_version = create_lease(control_plane, namespace)
    fault_proxy.lose_response(connections=1, reset=True)
    client = control_plane.client(port=fault_proxy.port)
    body = lease("a", holder_identity="y", resource_version=resource_version)
    started = time.monotonic()
    with pytest.raises(ConnectionError):
        client.put(f"{leases_path(namespace)}/a", body)
    assert time.monotonic() - started < 10
    assert holder(control_plane, namespace) == "y"
    assert client.get("/readyz")[0] == 200


def test_an_aiohttp_client_loses_its_response_on_new_and_on_existing_connections(
    control_plane: ControlPlane, fault_proxy: FaultProxy, namespace: str
) -> None:
    version = create_lease(control_plane, namespace)
    rule = {"apiGroups": ["*"], "resources": ["leases"], "verbs": ["get", "update"]}
    control_plane.kubeconfig_for(namespace, "candidate", [rule])
    token = control_plane.new_token(namespace, "candidate")
    context = ssl.create_default_context(cafile=str(control_plane.ca_bundle))
    url = f"{fault_proxy.url}{leases_path(namespace)}/a"

    async def write(*, first_read: bool, identity: str, resource_version: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context), headers=headers
        ) as session:
            if first_read:
                async with session.get(url) as response:
                    assert response.status == 200
            fault_proxy.lose_response()
            body = lease("a", holder_identity=identity, resource_version=resource_version)
            lost = fault_proxy.traffic().lost_responses
            writing = asyncio.ensure_future(session.put(url, json=body))
            await asyncio.to_thread(
                wait_for,
                lambda: fault_proxy.traffic().lost_responses > lost,
                timeout=TIMEOUT,
                what="a lost response",
            )
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(writing, PATIENCE)
            # aiohttp waits for the server's close_notify, which is lost too; healing resets.
            fault_proxy.heal()
        await asyncio.sleep(0.1)

    asyncio.run(write(first_read=False, identity="y", resource_version=version))
    assert holder(control_plane, namespace) == "y"
    path = f"{leases_path(namespace)}/a"
    version = control_plane.admin.get(path)[1]["metadata"]["resourceVersion"]
    asyncio.run(write(first_read=True, identity="z", resource_version=version))
    assert holder(control_plane, namespace) == "z"


def wait_for_more(answers: list[bytes]) -> None:
    """Until some echoes came that had not come yet."""
    enough = answers.count(b"a") + 4
    wait_for(lambda: answers.count(b"a") >= enough, timeout=20, what="echoes")


def test_stopping_in_the_midst_of_traffic_ends_every_connection() -> None:
    """Sockets that asyncio forgets would show as ResourceWarnings, which are errors here."""
    stopped = threading.Event()
    answers: list[bytes] = []

    def hammer(port: int) -> None:
        while not stopped.is_set():
            with (
                suppress(ConnectionError),
                socket.create_connection((LOOPBACK, port), timeout=5) as client,
            ):
                client.sendall(b"a")
                answers.append(client.recv(1))

    with echo_server() as port:
        for _ in range(5):
            stopped.clear()
            with FaultProxy(port) as proxy:
                threads = [threading.Thread(target=hammer, args=(proxy.port,)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for break_all in (proxy.reset, proxy.refuse):
                    wait_for_more(answers)
                    break_all()
                    time.sleep(0.03)
                    proxy.heal()
                wait_for_more(answers)
            stopped.set()
            for thread in threads:
                thread.join(10)
                assert not thread.is_alive()
    assert answers.count(b"a") > 50
    gc.collect()


@contextmanager
def proxy_process(target_port: int) -> Iterator[dict[str, int]]:
    """A proxy in its own process; the ports that it prints."""
    command = [sys.executable, "-m", "tools.harness.controlplane.fault_proxy.process"]
    command += ["--target", f"{LOOPBACK}:{target_port}"]
    root = Path(__file__).parents[4]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
    assert process.returncode == 0


def control(port: int, method: str, path: str, body: str | None = None) -> tuple[int, str]:
    """A request to the control port of a proxy process."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    content = body.encode() if body is not None else None
    answer = exchange(connection, path, method=method, body=content)
    return answer.status, answer.body.decode()


def test_a_proxy_process_is_controlled_over_http(control_plane: ControlPlane) -> None:
    with proxy_process(control_plane.port) as ports:
        client = control_plane.client(port=ports["port"])
        assert client.get("/readyz")[0] == 200
        status, body = control(ports["control_port"], "PUT", "/fault", '{"mode": "refuse"}')
        assert (status, json.loads(body)["mode"]) == (200, "refuse")
        with pytest.raises(ConnectionRefusedError):
            client.get("/readyz")
        status, body = control(
            ports["control_port"], "PUT", "/fault", '{"response_delay": {"seconds": 0.1}}'
        )
        assert (status, json.loads(body)["response_delay"]["seconds"]) == (200, 0.1)
        assert client.get("/readyz")[0] == 200
        assert control(ports["control_port"], "GET", "/fault") == (200, body)
        status, body = control(ports["control_port"], "GET", "/traffic")
        assert json.loads(body)["connections"] == 2


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('{"mode": "explode"}', "explode"),
        ('{"speed": 1}', "speed"),
        ('{"response_delay": {"seconds": -1}}', "-1"),
        ("[]", "object"),
        ("{", "line 1"),
    ],
)
def test_a_proxy_process_refuses_what_it_does_not_know(body: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        parse_fault(body.encode())
