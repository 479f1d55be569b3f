"""N6 and the row "cut, a neighbour has a link": a relay goes on over the neighbour's link, with its
own credential and its callers' tokens, in TLS from end to end.

The relay is one more of the node (as LC's), beside that of its member; both follow the same
pool-sidecar.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.integration.pool.hall import Nodes, borrows, until
from tests.integration.raw_client import RawClient
from tests.integration.relay.passed_on.test_tunnel import SPDY, echo, tls_server
from tests.integration.relay.upstream import of_relays, parameter, verbs
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.flapping import flapping
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.pools.member import PoolNode
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Watching

pytestmark = pytest.mark.slow

# Of who may read and write ConfigMaps.
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]


@pytest.fixture
def namespace(pool_plane: ControlPlane) -> str:
    name = f"detour-{secrets.token_hex(3)}"
    expect(pool_plane.admin.post("/api/v1/namespaces", {"metadata": {"name": name}}))
    return name


@contextmanager
def relay_on(node: PoolNode, *flags: str, kubeconfig: Path | None = None) -> Iterator[RelayProcess]:
    """One more relay of the node, over the same link."""
    found = kubeconfig or node.plane.admin_kubeconfig(server=node.link.url)
    relay = RelayProcess(
        [f"--kubeconfig={found}", *node.pool_flags, *flags],
        name=f"relay-2-{node.name}",
        guardian=node.plane.guardian,
    )
    try:
        yield relay.start()
        assert "Traceback" not in relay.log_text(all_lives=True), relay.log_text()
    finally:
        relay.stop()


def is_over(relay: RelayProcess, *lenders: str) -> bool:
    """Whether it reaches upstream over one of them."""
    link = relay.status()["link"]
    return link["isUp"] is True and link["via"] in lenders and link["ownIsUp"] is False


def is_direct(relay: RelayProcess) -> bool:
    link = relay.status()["link"]
    return (link["isUp"], link["via"], link["ownIsUp"]) == (True, None, True)


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def make(plane: ControlPlane, namespace: str, name: str) -> None:
    expect(plane.admin.post(config_maps(namespace), {"metadata": {"name": name}}))


def sees(watching: Watching, name: str, *, within: float = 30.0) -> None:
    watching.wait_for(lambda it: ("ADDED", name) in it.told(), timeout=within, what=name)
    assert watching.is_open


def cursors(plane: ControlPlane, namespace: str) -> list[int]:
    """Where each watch of the relay's stream began."""
    watches = [it for it in of_relays(plane, namespace) if it.verb == "watch"]
    return [int(parameter(it, "resourceVersion")) for it in watches]


def lists(plane: ControlPlane, namespace: str) -> int:
    """Of the relay's own, without its questions beside a watch."""
    return verbs(of_relays(plane, namespace)).count("list")


def test_n6_cut_while_a_neighbour_has_a_link_a_relay_lists_watches_and_writes_over_it(
    nodes: Nodes, namespace: str
) -> None:
    one = nodes["m1"]
    plane = one.plane
    with relay_on(one) as relay:
        caller = Caller(relay.url)
        with caller.watch(config_maps(namespace)) as watching:
            make(plane, namespace, "before")
            sees(watching, "before")
            assert (lists(plane, namespace), is_direct(relay)) == (1, True)

            one.link.refuse()
            lender = borrows(one)
            until(lambda: is_over(relay, lender), what="the relay goes over the neighbour")
            make(plane, namespace, "while-cut")
            sees(watching, "while-cut")
            assert "while-cut" in caller.get(config_maps(namespace)).names
            written = caller.post(config_maps(namespace), {"metadata": {"name": "written"}})
            written.expect(HTTPStatus.CREATED)
            sees(watching, "written")
            expect(plane.admin.get(f"{config_maps(namespace)}/written"))
            assert f'relay_link_via{{node="{lender}"}} 1' in relay.metrics()
            assert f"via {lender}" in relay.command("status")

            one.link.heal()
            until(lambda: is_direct(relay), what="the relay goes over the own link")
            make(plane, namespace, "healed")
            sees(watching, "healed")
            until(lambda: not nodes[lender].member.status()["borrowers"], what="nothing is lent")
            make(plane, namespace, "after")
            sees(watching, "after")
            assert watching.told().count(("ADDED", "while-cut")) == 1
        # Its stream went on at its cursor each time.
        assert lists(plane, namespace) == 1
        found = cursors(plane, namespace)
        assert len(found) >= 3
        assert found == sorted(found)
        assert_told_in_order(relay, lender)


def assert_told_in_order(relay: RelayProcess, lender: str) -> None:
    ways = [line for line in relay.log_text().splitlines() if "the way to upstream" in line]
    assert len(ways) == 2, ways
    assert f"via={lender}" in ways[0]
    assert "own link" in ways[1]


@pytest.mark.long
def test_n6_when_the_lender_dies_a_relay_goes_over_the_next_one(
    nodes: Nodes, namespace: str
) -> None:
    one = nodes["m1"]
    with relay_on(one) as relay, Caller(relay.url).watch(config_maps(namespace)) as watching:
        make(one.plane, namespace, "before")
        sees(watching, "before")
        one.link.black_hole()
        lender = borrows(one)
        until(lambda: is_over(relay, lender), what="the relay goes over the neighbour")
        make(one.plane, namespace, "while-cut")
        # The kernel gives a silent connection up after 25 s.
        sees(watching, "while-cut", within=15)
        nodes[lender].member.kill()
        others = {"m2", "m3"} - {lender}
        until(lambda: is_over(relay, *others), what="the relay goes over the other one")
        make(one.plane, namespace, "after")
        sees(watching, "after")
        assert lists(one.plane, namespace) == 1


@pytest.mark.long
def test_n6_without_its_pool_sidecar_a_relay_is_as_without_a_pool(
    nodes: Nodes, namespace: str
) -> None:
    one = nodes["m1"]
    with relay_on(one) as relay:
        caller = Caller(relay.url)
        make(one.plane, namespace, "before")
        with caller.watch(config_maps(namespace)) as watching:
            sees(watching, "before")
        one.link.refuse()
        until(lambda: is_over(relay, borrows(one)), what="the relay goes over the neighbour")
        one.member.kill()
        until(lambda: relay.status()["link"]["via"] is None, what="it does no more", timeout=20)
        until(lambda: not relay.is_link_up, what="the link is down")
        assert caller.get(config_maps(namespace)).names == ["before"]
        refused = caller.post(config_maps(namespace), {"metadata": {"name": "x"}})
        assert refused.status == HTTPStatus.SERVICE_UNAVAILABLE
        one.link.heal()
        until(lambda: is_direct(relay), what="the own link is back")
        one.link.refuse()
        one.member.start()
        until(lambda: is_over(relay, "m2", "m3"), what="the relay goes over a neighbour again")


@pytest.mark.long
def test_n6_a_caller_that_comes_while_cut_is_asked_about_over_the_neighbour(
    nodes: Nodes, namespace: str
) -> None:
    one = nodes["m1"]
    plane = one.plane
    plane.kubeconfig_for(namespace, "reader", RULES)
    plane.kubeconfig_for(namespace, "stranger", [])
    make(plane, namespace, "before")
    with relay_on(one, "--access=caller") as relay:
        one.link.refuse()
        until(lambda: is_over(relay, borrows(one)), what="the relay goes over the neighbour")

        def asked(account: str) -> Caller:
            token = plane.new_token(namespace, account)
            return Caller(relay.url, headers={"Authorization": f"Bearer {token}"})

        assert asked("reader").get(config_maps(namespace)).names == ["before"]
        asked("reader").post(config_maps(namespace), {"metadata": {"name": "written"}}).expect(
            HTTPStatus.CREATED
        )
        assert asked("stranger").get(config_maps(namespace)).status == HTTPStatus.FORBIDDEN
        forged = Caller(relay.url, headers={"Authorization": "Bearer forged"})
        assert forged.get(config_maps(namespace)).status == HTTPStatus.UNAUTHORIZED
        written = [
            it
            for it in plane.audit(namespace=namespace, resource="configmaps", verb="create")
            if it.name == "written"
        ]
        assert [it.user for it in written] == [f"system:serviceaccount:{namespace}:reader"]


@pytest.mark.long
def test_n6_a_server_that_cannot_prove_who_it_is_is_not_believed_over_a_neighbour_either(
    nodes: Nodes, tmp_path: Path
) -> None:
    one = nodes["m1"]
    strange = Authority(tmp_path, "strange").bundle.read_bytes()
    kubeconfig = write_kubeconfig(
        tmp_path / "strange.kubeconfig", server=one.link.url, ca=strange, credentials="t"
    )
    with relay_on(one, kubeconfig=kubeconfig) as relay:
        one.link.refuse()
        lender = borrows(one)
        until(lambda: relay.status()["link"]["via"] == lender, what="the relay tries the neighbour")
        until(lambda: is_over(one.relay, lender), what="the other relay reaches upstream")
        assert relay.status()["link"]["isUp"] is False


@pytest.mark.long
def test_n6_a_relay_without_the_token_of_its_pool_gets_no_link_and_one_with_the_next_one_does(
    nodes: Nodes, tmp_path: Path
) -> None:
    one = nodes["m1"]
    wrong = tmp_path / "token"
    wrong.write_text("none-of-ours\n")
    before = one.member.token
    with relay_on(one, f"--pool-token-file={wrong}") as stranger, relay_on(one) as relay:
        one.link.refuse()
        lender = borrows(one)
        until(lambda: is_over(relay, lender), what="the relay goes over the neighbour")
        assert stranger.status()["link"]["via"] is None
        assert "the pool-sidecar does not answer" in stranger.log_text()

        (one.member.data_dir / "token").write_text("another-one\n")
        assert _connect(one, before).startswith(b"HTTP/1.1 407")
        assert _connect(one, "another-one").startswith(b"HTTP/1.1 200")
        wrong.write_text("another-one\n")
        until(lambda: is_over(stranger, lender), what="with the token it goes there too")
        assert is_over(relay, lender)


def _connect(node: PoolNode, token: str) -> bytes:
    """The answer to CONNECT on the node's loopback."""
    lines = (
        f"CONNECT {LOOPBACK}:{node.link.port} HTTP/1.1",
        f"Proxy-Authorization: Bearer {token}",
    )
    with socket.create_connection((LOOPBACK, node.member.proxy_port), 10) as tunnel:
        tunnel.sendall("\r\n".join([*lines, "", ""]).encode())
        return tunnel.recv(1024)


@pytest.mark.long
def test_n6_more_streams_than_a_neighbour_lends_connections_make_no_outage(
    nodes: Nodes, namespace: str
) -> None:
    one = nodes["m1"]
    kinds = ("configmaps", "secrets", "services", "pods", "endpoints", "limitranges", "events")
    # More than the neighbour lends, with the streams of the node's other relay.
    preload = [f"--preload={it}?namespace={namespace}" for it in (*kinds, "resourcequotas")]
    with relay_on(one, *preload) as relay:
        one.link.refuse()
        lender = borrows(one)
        until(lambda: is_over(relay, lender), what="the relay goes over the neighbour")
        until(lambda: "429" in relay.log_text(), what="there is no connection left")
        changes = link_changes(relay)
        until(lambda: len(live(relay)) >= 2, what="some streams go on")
        for _ in range(50):
            assert is_over(relay, lender)
        assert link_changes(relay) == changes


@pytest.mark.long
def test_n6_over_a_link_that_flaps_a_relay_lists_once_and_its_clients_watches_stay_open(
    nodes: Nodes, namespace: str
) -> None:
    one = nodes["m1"]
    plane = one.plane
    with relay_on(one) as relay, Caller(relay.url).watch(config_maps(namespace)) as watching:
        make(plane, namespace, "before")
        sees(watching, "before")
        began = time.monotonic()
        with flapping(one.link, FaultProxy.refuse, up=1.0, down=1.0):
            borrows(one)
            until(lambda: is_over(relay, "m2", "m3"), what="the relay goes over a neighbour")
            for number in range(8):
                make(plane, namespace, f"flap-{number}")
                sees(watching, f"flap-{number}")
                time.sleep(1.0)
            # As a link that comes and goes is none until it was up for 10 s, it stays there.
            assert is_over(relay, "m2", "m3")
            flaps = (time.monotonic() - began) / 2
        until(lambda: is_direct(relay), what="the relay goes over the own link")
        make(plane, namespace, "after")
        sees(watching, "after")
        told = [name for kind, name in watching.told() if kind == "ADDED"]
        assert told == ["before", *(f"flap-{it}" for it in range(8)), "after"]
    assert lists(plane, namespace) == 1
    found = cursors(plane, namespace)
    assert found == sorted(found)
    # Until it went over the neighbour, one for each time that the link was up; none in a loop.
    assert len(found) <= flaps + 4


@pytest.mark.long
def test_n6_an_upgraded_connection_such_as_exec_goes_over_the_neighbour(
    nodes: Nodes, tmp_path: Path
) -> None:
    one = nodes["m1"]
    with (
        tls_server(tmp_path, echo) as kubelet,
        pod_on(one.plane, kubelet_port=kubelet.port) as namespace,
        relay_on(one) as relay,
    ):
        one.link.refuse()
        lender = borrows(one)
        until(lambda: is_over(relay, lender), what="the relay goes over the neighbour")
        before = int(nodes[lender].member.status()["lentBytes"])
        with RawClient(relay.port) as client:
            head = SPDY.replace(b"/n/pods/p/", f"/{namespace}/pods/p/".encode())
            client.send(head.replace(b"Host: r\r\n", f"Host: {LOOPBACK}\r\n".encode()))
            status, _ = client.head()
            assert status == HTTPStatus.SWITCHING_PROTOCOLS, client.some()
            for content in (b"hello", b"x" * 200_000):
                client.send(content)
                found = b""
                while len(found) < len(content):
                    found += client.some()
                assert found == content.swapcase()
        # Both ways.
        lent = int(nodes[lender].member.status()["lentBytes"]) - before
        assert lent >= 2 * 200_000
        (asked,) = kubelet.requests
        assert asked.startswith(f"POST /exec/{namespace}/p/main?".encode())


@contextmanager
def pod_on(plane: ControlPlane, *, kubelet_port: int) -> Iterator[str]:
    """The pod `p`, of a node whose kubelet listens on this port; its namespace."""
    namespace = plane.create_namespace("exec")
    name = f"exec-{secrets.token_hex(3)}"
    expect(plane.admin.post("/api/v1/nodes", {"metadata": {"name": name}}))
    endpoint = {"kubeletEndpoint": {"Port": kubelet_port}}
    status = {
        "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
        "daemonEndpoints": endpoint,
    }
    expect(plane.admin.patch(f"/api/v1/nodes/{name}/status", {"status": status}))
    spec = {"nodeName": name, "containers": [{"name": "main", "image": "example.com/x:1"}]}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    expect(plane.admin.post(pods, {"metadata": {"name": "p"}, "spec": spec}))
    try:
        yield namespace
    finally:
        plane.admin.delete(f"{pods}/p", {"gracePeriodSeconds": 0})
        plane.admin.delete(f"/api/v1/nodes/{name}")


def live(relay: RelayProcess) -> Sequence[str]:
    streams = relay.status()["streams"]
    return [it["resource"] for it in streams if it["state"] == "live"]


def link_changes(relay: RelayProcess) -> str:
    lines = relay.metrics().splitlines()
    return next(it for it in lines if it.startswith("relay_link_changes_total"))
