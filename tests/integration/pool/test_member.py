"""Members as real processes before a real API server with the Node authorizer and NodeRestriction.

Three nodes, each with its own address, link, relay and stand-in for kubelet; the PoolMembers are
made by the real controller.
"""

import re
import socket
import ssl
import time
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from pool_sidecar.lan.certificate import own_certificate
from pool_sidecar.lan.tls import client_context
from tests.integration.pool.hall import LENT_CONNECTIONS, NAMES, Nodes, borrows, until
from tests.integration.pool.nodes import members
from tests.integration.pool.test_detour import relay_on
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.pools.accounts import token_of_pod
from tools.harness.pods.pools.member import PoolNode
from tools.harness.pods.wire.caller import Caller

# Words of four bytes, more than a node says in some seconds.
LATE = 50_000

pytestmark = pytest.mark.slow


def renewals(node: PoolNode, count: int) -> None:
    """Waits until the Lease was renewed so many times."""
    for _ in range(count):
        until(partial(_is_renewed, node, node.renewed), what=f"{node.name} renews", timeout=25)


def _is_renewed(node: PoolNode, before: str) -> bool:
    return node.renewed != before


@pytest.mark.long
def test_n1_a_node_that_is_cut_keeps_its_lease_over_a_neighbour_and_the_next_one(
    nodes: Nodes,
) -> None:
    one = nodes["m1"]
    one.link.refuse()
    lender = borrows(one)
    renewals(one, 2)
    until(lambda: one.cloud_link[0] == "False", what="the condition says that it is cut")
    assert lender in one.cloud_link[1]
    told = members(one.plane)[one.name]["status"]
    until(lambda: members(one.plane)[one.name]["status"].get("link") == "Lent", what="status")
    assert told["addresses"] == ["127.0.77.1"]
    assert nodes[lender].member.status()["borrowers"] == ["m1"]
    assert "via" in one.member.command("status")

    gaps = Caller(f"http://{LOOPBACK}:{one.member.port}").get("/metrics").body.decode()
    within = re.search(r'pool_renewal_gap_seconds_bucket{le="30"} (\d+)', gaps)
    assert within is not None
    assert int(within[1]) >= 2

    nodes[lender].member.kill()
    until(lambda: one.member.status()["via"] not in ("", lender), what="another lender")
    renewals(one, 2)

    one.link.heal()
    until(lambda: one.member.status()["link"] == "Own", what="its own link again")
    until(lambda: one.cloud_link[0] == "True", what="the condition says that it is not cut")


@pytest.mark.long
def test_n2_no_heartbeat_of_a_node_whose_kubelet_is_gone(nodes: Nodes) -> None:
    one = nodes["m1"]
    one.kubelet.is_well = False
    one.link.refuse()
    borrows(one)
    time.sleep(5)  # What was on its way before.
    renewed = one.renewed
    time.sleep(25)
    assert one.renewed == renewed


def test_n7_all_well_a_member_writes_nothing_once_it_is_known(nodes: Nodes) -> None:
    plane = nodes["m1"].plane
    path = "/apis/pool.edge-sidecars.io/v1alpha1/poolmembers"
    until(
        lambda: all(members(plane)[it]["status"].get("link") == "Own" for it in NAMES),
        what="all have said that they have a link",
    )

    def versions() -> list[str]:
        return [members(plane)[it]["metadata"]["resourceVersion"] for it in NAMES]

    before = versions()
    time.sleep(20)
    assert versions() == before, path
    for node in nodes.values():
        assert node.member.status()["heartbeats"] == 0
        assert node.cloud_link == ("True", "")


@pytest.mark.long
def test_a_member_that_starts_while_it_is_cut_knows_its_neighbours(nodes: Nodes) -> None:
    one = nodes["m1"]
    one.link.refuse()
    borrows(one)
    one.member.kill()
    one.member.start()
    borrows(one)
    renewals(one, 1)


@pytest.mark.long
def test_a_member_with_a_new_token_knows_its_neighbours_after_a_start_while_all_are_cut(
    nodes: Nodes, tmp_path: Path
) -> None:
    """A relay answers only tokens while cut that it has asked upstream about before: a reboot finds
    the newest one, which kubelet may have renewed a moment ago."""
    one, file = nodes["m1"], tmp_path / "token"
    file.write_text(token_of_pod(one.plane, "pool-member", one.name))

    def reads() -> int:
        return one.member.log_text().count("collection listed")

    with relay_on(one, "--access=caller") as relay:
        one.member.kill()
        one.member.flags += [f"--relay={relay.url}", f"--relay-token-file={file}"]
        one.member.start()
        until(lambda: _hears_all(one), what="it knows its neighbours")
        before = reads()
        file.write_text(token_of_pod(one.plane, "pool-member", one.name))
        until(lambda: reads() >= before + 2, what="the new token is shown to the relay")
        for node in nodes.values():
            node.link.refuse()
        relay.wait_link(up=False)
        one.member.kill()
        relay.kill()
        relay.start()
        one.member.start()
        until(lambda: _hears_all(one), what="it knows its neighbours while all are cut")


def _hears_all(node: PoolNode) -> bool:
    verdicts = [it["verdict"] for it in node.member.status()["peers"]]
    return verdicts == ["Alive"] * (len(NAMES) - 1)


@pytest.mark.long
def test_n8_a_lender_that_was_frozen_passes_on_nothing_that_is_older_than_five_seconds(
    nodes: Nodes,
) -> None:
    one, two, three = (nodes[it] for it in NAMES)
    three.link.refuse()
    until(lambda: not three.member.status()["lends"], what="m3 does not lend")
    one.link.refuse()
    assert borrows(one) == "m2"
    renewals(one, 1)
    # Over a tunnel of our own, which says nothing while the lender is frozen.
    with socket.create_connection((LOOPBACK, one.member.proxy_port), 10) as tunnel:
        request = (
            f"CONNECT {LOOPBACK}:{one.link.port} HTTP/1.1",
            f"Proxy-Authorization: Bearer {one.member.token}",
        )
        tunnel.sendall("\r\n".join([*request, "", ""]).encode())
        assert tunnel.recv(1024).startswith(b"HTTP/1.1 200")
        two.member.freeze()
        # It waits in the frozen lender, and would be a request if it came on.
        tunnel.sendall(b"late" * LATE)
        time.sleep(8)
        before = two.link.traffic().request_bytes
        two.member.thaw()
        tunnel.settimeout(10)
        assert _is_ended(tunnel)
        until(lambda: "stood still" in two.member.log_text(), what="it says that it stood still")
        # Besides what the lender's own node has to say.
        assert two.link.traffic().request_bytes - before < LATE


def _is_ended(connection: socket.socket) -> bool:
    try:
        while connection.recv(1024):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_lender_serves_its_pool_and_the_api_server_only(nodes: Nodes, tmp_path: Path) -> None:
    one, two = nodes["m1"], nodes["m2"]

    def as_peer(request: bytes) -> bytes:
        own = own_certificate(one.member.data_dir, "m1")
        peer = own_certificate(two.member.data_dir, "m2")
        der = ssl.PEM_cert_to_DER_cert(peer.certificate)
        context = client_context(own.certificate, own.key, [der])
        with (
            socket.create_connection((two.member.address, two.member.lan_port), 5) as plain,
            context.wrap_socket(plain) as secured,
        ):
            secured.sendall(request)
            return secured.recv(4096)

    host = b" HTTP/1.1\r\nHost: m\r\n\r\n"
    assert as_peer(b"GET /state" + host).startswith(b"HTTP/1.1 200")
    for request in (b"CONNECT 127.0.0.1:22", b"GET /status", b"PUT /state"):
        assert as_peer(request + host).startswith(b"HTTP/1.1 403"), request
    assert as_peer(b"CONNECT cloud:443" + host).startswith(b"HTTP/1.1 200")
    two.link.refuse()
    until(lambda: not two.member.status()["lends"], what="m2 does not lend")
    assert as_peer(b"CONNECT cloud:443" + host).startswith(b"HTTP/1.1 503")

    stranger = own_certificate(tmp_path / "stranger", "m1")
    peer = own_certificate(two.member.data_dir, "m2")
    context = client_context(
        stranger.certificate, stranger.key, [ssl.PEM_cert_to_DER_cert(peer.certificate)]
    )
    with (
        socket.create_connection((two.member.address, two.member.lan_port), 5) as plain,
        context.wrap_socket(plain) as secured,
    ):
        assert _asked(secured, b"GET /state" + host) == b""


def _asked(connection: ssl.SSLSocket, request: bytes) -> bytes:
    """The first bytes of the answer; none where the other end refuses the certificate."""
    try:
        connection.sendall(request)
        return connection.recv(4096)
    except OSError:
        return b""


@pytest.mark.long
def test_one_borrower_does_not_get_more_connections_than_its_budget(nodes: Nodes) -> None:
    one, two = nodes["m1"], nodes["m2"]
    own = own_certificate(one.member.data_dir, "m1")
    peer = own_certificate(two.member.data_dir, "m2")
    context = client_context(own.certificate, own.key, [ssl.PEM_cert_to_DER_cert(peer.certificate)])
    with ExitStack() as stack:
        answers = []
        for _ in range(LENT_CONNECTIONS + 1):
            plain = socket.create_connection((two.member.address, two.member.lan_port), 5)
            secured = stack.enter_context(context.wrap_socket(stack.enter_context(plain)))
            secured.sendall(b"CONNECT cloud:443 HTTP/1.1\r\nHost: m\r\n\r\n")
            answers.append(secured.recv(4096)[9:12])
    assert answers == [b"200"] * LENT_CONNECTIONS + [b"429"]


def test_loopback_ports_need_the_token(nodes: Nodes) -> None:
    member = nodes["m1"].member
    assert member.ask("/sources").status == HTTPStatus.UNAUTHORIZED
    told = member.ask("/sources", token=member.token).json()
    assert told["role"] == "Follower"
    assert told["link"] == "Own"
    assert (told["detour"], told["via"], told["hub"]) == (False, "", None)
    assert sorted(it["node"] for it in told["peers"]) == ["m2", "m3"]
    with socket.create_connection((LOOPBACK, member.proxy_port), 5) as strange:
        strange.sendall(b"CONNECT cloud:443 HTTP/1.1\r\nHost: m\r\n\r\n")
        assert strange.recv(4096).startswith(b"HTTP/1.1 407")
    assert member.ask("/eligible").status == HTTPStatus.SERVICE_UNAVAILABLE
    assert member.ask("/readyz").status == HTTPStatus.OK
    assert "pool_link{" in member.ask("/metrics").body.decode()
