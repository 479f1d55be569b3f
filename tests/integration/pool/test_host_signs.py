"""A host that lives is never Silent: frozen members, firewalls and dead hosts, in networks of their
own, by the members' own code."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.runtime.clock import boottime
from pool_sidecar.core.members import Peer, to_der
from pool_sidecar.core.peers import Peers, Sign
from pool_sidecar.core.pool_member import Verdict
from pool_sidecar.lan.certificate import own_certificate
from pool_sidecar.lan.client import NoAnswer, PeerClient
from tools.harness.pods.kubelet.pod_network import entered
from tools.nemesis.vip.network import INTERFACE, Network, NoNamespaces, run

PORT = 10555
# Few, so that a process that is dialled anew each round fills it soon.
BACKLOG = 1
SERVER = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from http import HTTPStatus
    from pool_sidecar.core.lan_state import LanState
    from pool_sidecar.core.members import to_der
    from pool_sidecar.core.pool_member import Link
    from pool_sidecar.lan.http_head import BadHead, answer, read_head
    from pool_sidecar.lan.tls import listener_context

    async def serve(reader, writer):
        print("accepted", flush=True)
        try:
            while await read_head(reader) is not None:
                writer.write(answer(HTTPStatus.OK, LanState("b", "1", Link.OWN, True).encode()))
        except (BadHead, OSError):
            pass
        writer.transport.abort()

    async def main(address, port, backlog, own, peer):
        pem = Path(own).read_text()
        context = listener_context(pem, pem, [to_der(Path(peer).read_text())])
        server = await asyncio.start_server(
            serve, address, int(port), backlog=int(backlog), ssl=context
        )
        print("ready", flush=True)
        await server.serve_forever()

    asyncio.run(main(*sys.argv[1:]))
    """
)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    network = Network()
    try:
        network.__enter__()
        for name in ("n1", "n2"):
            network.add(name)
        # So that the kernel asks soon who is there: by default it may take 50 s.
        for setting in ("base_reachable_time_ms=2000", "delay_first_probe_time=1"):
            sysctl = f"net.ipv4.neigh.{INTERFACE}.{setting}"
            run(*network.inside("n1"), "sysctl", "-qw", sysctl)
    except NoNamespaces as error:
        network.close()
        pytest.skip(f"no network namespaces here: {error}")
    yield network
    network.close()


class Site:
    """Node `a` asks `b`; `verdict`, `testimony`: of `b`."""

    def __init__(self, network: Network, client: PeerClient, member: subprocess.Popen[str]) -> None:
        self.network = network
        self.client = client
        self.member = member
        self.peers = Peers()
        self.peers.follow({"b": client.peer})
        self.seen: list[Verdict | None] = []
        self.told: list[Verdict | None] = []

    async def rounds(self, count: int) -> None:
        for _ in range(count):
            try:
                self.peers.answered("b", await self.client.state(), boottime())
            except NoAnswer as error:
                self.peers.failed("b", error.sign, boottime())
            now = boottime()
            standing = self.peers.standing("b", now)
            self.seen.append(None if standing is None else standing.verdict)
            told = self.peers.testimony(now).get("b")
            self.told.append(None if told is None else told.verdict)
            await asyncio.sleep(0.2)

    def last(self) -> Verdict | None:
        return self.seen[-1]

    @contextmanager
    def firewall(self, *rule: str) -> Iterator[None]:
        inside = self.network.inside("n2")
        run(*inside, "iptables", "-A", "INPUT", *rule, "-j", "DROP")
        try:
            yield
        finally:
            run(*inside, "iptables", "-F", "INPUT")

    @property
    def accepted(self) -> int:
        """Ends the member; how often it was dialled."""
        self.member.kill()
        return self.member.communicate()[0].count("accepted")


@pytest.fixture
def site(network: Network, tmp_path: Path) -> Iterator[Site]:
    own, other = (own_certificate(tmp_path / name, name) for name in ("a", "b"))
    (tmp_path / "b.pem").write_text(other.certificate + other.key)
    (tmp_path / "a.crt").write_text(own.certificate)
    address = network.address("n2")
    arguments = [address, str(PORT), str(BACKLOG), str(tmp_path / "b.pem"), str(tmp_path / "a.crt")]
    with subprocess.Popen(
        [*network.inside("n2"), sys.executable, "-c", SERVER, *arguments],
        stdout=subprocess.PIPE,
        text=True,
    ) as member:
        try:
            assert member.stdout is not None
            assert member.stdout.readline() == "ready\n"
            peer = Peer("b", (address,), (to_der(other.certificate),))
            yield Site(network, PeerClient(peer, PORT, own), member)
        finally:
            member.kill()


def played(network: Network, scene: Coroutine[Any, Any, None]) -> None:
    """In the network of `a`."""
    path = f"/run/netns/{network.namespace('n1')}"
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with entered(descriptor):
            asyncio.run(scene)
    finally:
        os.close(descriptor)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "is_known",
    [True, pytest.param(False, marks=pytest.mark.manual)],
    ids=["while it is asked", "before"],
)
def test_a_member_that_is_frozen_is_degraded_and_never_silent(site: Site, is_known: bool) -> None:
    async def scene() -> None:
        if is_known:
            await site.rounds(2)
        site.member.send_signal(signal.SIGSTOP)
        await site.rounds(3 * BACKLOG + 4)
        assert Verdict.SILENT not in site.seen
        frozen = Verdict.DEGRADED if is_known else Verdict.NEVER_HEARD
        assert site.last() is frozen
        site.member.send_signal(signal.SIGCONT)
        await site.rounds(3)
        assert site.last() is Verdict.ALIVE
        site.client.close()

    played(site.network, scene())
    assert site.accepted == 1


@pytest.mark.long
@pytest.mark.slow
def test_a_new_firewall_on_the_port_makes_no_living_host_silent(site: Site) -> None:
    async def scene() -> None:
        await site.rounds(2)
        with site.firewall("-p", "tcp", "--dport", str(PORT)):
            await site.rounds(8)
            assert Verdict.SILENT not in site.seen
            assert site.last() is Verdict.DEGRADED
        await site.rounds(2)
        assert site.last() is Verdict.ALIVE
        site.client.close()

    played(site.network, scene())


@pytest.mark.manual
def test_a_host_that_answers_nothing_but_arp_is_no_vote(site: Site) -> None:
    async def scene() -> None:
        await site.rounds(2)
        with site.firewall():
            await site.rounds(10)
            assert Verdict.SILENT not in site.told
            assert site.last() is Verdict.DEGRADED
        site.client.close()

    played(site.network, scene())


@pytest.mark.slow
def test_a_dead_host_is_silent_after_three_rounds_and_a_vote_once_arp_finds_nobody(
    site: Site,
) -> None:
    async def scene() -> None:
        await site.rounds(2)
        site.network.silence("n2")
        try:
            await site.rounds(3)
            assert site.last() is Verdict.SILENT
            await site.rounds(6)
            assert set(site.seen[4:]) == {Verdict.SILENT}
            assert site.told[-1] is Verdict.SILENT
        finally:
            site.network.restore("n2")
            site.client.close()

    played(site.network, scene())


def test_a_host_to_which_no_way_leads_gives_no_sign(network: Network, tmp_path: Path) -> None:
    """What this kernel or a router says of it is not its own word."""
    run(*network.inside("n1"), "ip", "route", "replace", "unreachable", "203.0.113.1")
    own = own_certificate(tmp_path, "a")
    client = PeerClient(Peer("gone", ("203.0.113.1",), (to_der(own.certificate),)), PORT, own)

    async def scene() -> None:
        for _ in range(3):
            with pytest.raises(NoAnswer) as found:
                await client.state()
            assert found.value.sign is Sign.NONE
        client.close()

    played(network, scene())
