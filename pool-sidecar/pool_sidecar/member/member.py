"""The state of a member, and what its parts tell each other.

Owns the machine (`core.pool`), the clients of all peers and the tunnels; makes no request itself.
Guarantee: each answer is as of now (N8).
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from edge_sidecars.kubeapi import Credentials
from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.metrics import Histogram
from pool_sidecar.config.member_config import MemberConfig
from pool_sidecar.core.announcements import Announcements, Situation
from pool_sidecar.core.heartbeat import Heartbeat
from pool_sidecar.core.lan_state import Claim, LanState
from pool_sidecar.core.members import Directory
from pool_sidecar.core.peers import STANDSTILL
from pool_sidecar.core.pool import Pool
from pool_sidecar.core.pool_member import Link, PoolMember
from pool_sidecar.lan import tunnel
from pool_sidecar.lan.certificate import Certificate
from pool_sidecar.lan.client import PeerClient
from pool_sidecar.lan.listener import LanListener
from pool_sidecar.lan.local_proxy import LocalProxy

# kubelet's healthz proves for so many seconds that it runs; it is asked each second.
KUBELET_VALID: Final = 2.0
HTTPS: Final = 443
# Seconds: a heartbeat is due after 10, and 20 are the goal; the API server's side calls a node lost
# after --node-monitor-grace-period, 50 by default.
GAP_BOUNDS: Final = (9.0, 10.0, 12.0, 15.0, 20.0, 30.0, 40.0, 50.0, 120.0)


class Member:
    def __init__(
        self,
        config: MemberConfig,
        own: Certificate,
        token: WatchedFiles[str],
        *,
        server: tuple[str, int],
        proxy: Callable[[], HttpProxy | None] = lambda: None,
    ) -> None:
        """`token`: of the loopback ports; one that was usable. `proxy`: as for `LanListener`."""
        self.config = config
        self.own = own
        self.pool = Pool(config.node, lends=config.lend)
        self.heartbeat = Heartbeat()
        self.announcements = Announcements()
        self.clients: dict[str, PeerClient] = {}
        self.listener = LanListener(
            self,
            own,
            config.limits,
            server=server,
            relay=(config.relay_pool.host, config.relay_pool.port),
            proxy=proxy,
        )
        servers = {(server[0], str(server[1])), *config.in_cluster}
        self.proxy = LocalProxy(
            token,
            servers,
            lender=self.lender,
            failed=self.lender_failed,
            peer=self.clients.get,
            node=config.node,
            relay=(config.relay_pool.host, config.relay_pool.port),
        )
        self.token = token
        self.started_at = boottime()
        self.kubelet_at: float | None = None
        self.heartbeats = 0
        # Seconds between two renewals of the Lease, of which the member wrote the later one.
        self.renewal_gaps = Histogram(GAP_BOUNDS)
        self.is_listed = False
        self._incarnation = str(uuid.uuid4())
        self._link = Link.NONE, ""
        self._hub: tuple[str, bool, frozenset[str]] = "", False, frozenset()
        self._changed = asyncio.Event()

    @property
    def directory(self) -> Directory:
        return self.pool.directory

    @property
    def lack(self) -> str:
        """Why it is not ready; "" where nothing is missing."""
        if not self.is_listed:
            return "the directory was not read yet"
        if not self.directory.pool:
            return f"node {self.config.node} is in no pool: label it"
        return ""

    def is_kubelet_ok(self, now: float) -> bool:
        return self.kubelet_at is not None and now - self.kubelet_at <= KUBELET_VALID

    def lends(self, now: float) -> bool:
        return self.pool.lends(now)

    def serves(self, now: float) -> bool:
        return self.pool.serves(now)

    def relay_token(self) -> str:
        return self.token.get()

    def state(self, now: float) -> bytes:
        claim = None
        if self.pool.leads(now):
            claim = Claim(self.pool.claim.transitions, self.pool.claim.remaining(now))
        verdicts = {name: it.verdict for name, it in self.pool.peers.verdicts(now).items()}
        return LanState(
            self.config.node,
            self._incarnation,
            self.pool.link(now) if self.config.lend else _not_lent(self.pool.link(now)),
            self.is_kubelet_ok(now),
            claim,
            verdicts,
            self.pool.streams.shared(now),
        ).encode()

    def situation(self, now: float) -> Situation:
        peers = self.directory.peers
        judged = {name for name, it in peers.items() if it.is_dead}
        # Of members alone, and not of what is judged already.
        members = {*peers, self.config.node} - judged
        accusers = sum(bool(members & set(it.state.verdicts)) for it in self.pool.peers.heard(now))
        return Situation(
            self.config.lan_addresses,
            (self.own.certificate,),
            self.pool.link(now),
            self.pool.via(now),
            self.pool.peers.testimony(now),
            accusers > 1,
            judged,
            {name for name, it in peers.items() if it.is_lost},
            accusers == 1,
        )

    def follow(self, members: Iterable[PoolMember]) -> None:
        """The directory changed."""
        found, before = Directory.of(self.config.node, members), self.directory
        self.is_listed = True
        if found == before:
            return
        self.pool.follow(found)
        for name, client in tuple(self.clients.items()):
            peer = found.peers.get(name)
            if peer is None or peer.identity != client.peer.identity:
                client.close()
                del self.clients[name]
            else:
                client.peer = peer
        for name, peer in found.peers.items():
            if name not in self.clients:
                self.clients[name] = PeerClient(peer, self.config.lan_port, self.own)
        self.listener.trust(found)
        self.proxy.keep_readers(self.clients.__contains__)
        if (found.pool, found.peers.keys()) != (before.pool, before.peers.keys()):
            peers = ",".join(found.peers)
            logger.info("pool", extra=fields(name=found.pool or "none", peers=peers))
        self.advance(boottime())

    def lender(self) -> PeerClient | None:
        name = self.pool.via(boottime())
        return self.clients.get(name)

    def lender_failed(self, name: str) -> None:
        now = boottime()
        self.pool.borrowing.refused(name, now)
        self.advance(now)

    def advance(self, now: float) -> None:
        """What follows from what was just observed."""
        self.pool.advance(now)
        link = self.pool.link(now), self.pool.via(now)
        if link != self._link:
            before, self._link = self._link, link
            if link[0] is Link.OWN and self.pool.is_lender(before[1], now):
                self.proxy.retire()
            else:
                self.proxy.reset_all(unless=link[1])
            logger.info("link", extra=fields(link=link[0].value, via=link[1] or "-"))
            self.touch()
        leader = self.pool.hub(now)
        hub = leader, self.pool.leads(now), frozenset(self.pool.live(leader, now))
        if hub != self._hub:
            if hub[0] != self._hub[0]:
                logger.info("hub", extra=fields(node=leader or "none"))
            self._hub = hub
            self.touch()

    def touch(self) -> None:
        """Wakes those who wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, within: float) -> None:
        """Returns after so many seconds at the latest."""
        changed = self._changed
        try:
            async with asyncio.timeout(within):
                await changed.wait()
        except TimeoutError:
            return

    def stood_still(self, seconds: float) -> None:
        """Called before anything that came meanwhile is read."""
        if seconds > tunnel.STANDSTILL:
            self.listener.tunnels.reset_all()
            self.proxy.reset_all()
            self.listener.readers.reset_all()
            self.proxy.keep_readers(lambda name: False)
        if seconds > STANDSTILL:
            logger.warning("this process stood still", extra=fields(seconds=seconds))
            self.pool.stood_still()
            self.kubelet_at = None


def _not_lent(link: Link) -> Link:
    """Own is an offer to lend."""
    return Link.NONE if link is Link.OWN else link


def server_of(credentials: Credentials) -> tuple[str, int]:
    """Raises `BadInput` where a tunnel there would show the node's credential to a lender."""
    from urllib.parse import urlsplit

    parts = urlsplit(credentials.server)
    if parts.scheme != "https" or not parts.hostname:
        raise BadInput(
            f"the API server {credentials.server} is not https: a neighbour would see what is "
            "sent; name an https --server"
        )
    return parts.hostname, parts.port or HTTPS
