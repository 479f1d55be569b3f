"""Callers that bring tokens or certificates: imported only where the flags ask for it."""

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiTransport, Credentials
from edge_sidecars.kubeapi.client_certificate import ClientCertificate
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.access import node
from relay_sidecar.access.admission import OpenedAccess
from relay_sidecar.access.authorization_store import FAMILIES, SPACE, AuthorizationStore
from relay_sidecar.access.caller import CallerAccess
from relay_sidecar.access.kubelet_process import KubeletProcess
from relay_sidecar.access.reviews import RestartReviews, Reviews
from relay_sidecar.config.config import Config
from relay_sidecar.core.access.node_identity import NodeCertificates
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.upstream.link_probe import LinkProbe


async def open_asking(
    config: Config,
    transport: ApiTransport,
    credentials: Credentials,
    journal: Journal,
    saved: Saved,
    probe: LinkProbe,
    stack: AsyncExitStack,
    *,
    are_authentic: bool,
    known: Callable[[], Iterable[ResourceName]],
    spawn: Spawn,
) -> OpenedAccess:
    """`are_authentic`: what was saved of rights is known to be a relay's; `known`: the resources of
    which the relay has something. Raises `BadInput`."""
    store = await AuthorizationStore.open(
        journal,
        saved.kept.get(SPACE, {}),
        heard_at=lambda: probe.link.heard_at,
        ttl=config.access_ttl,
        offline_ttl=config.access_offline_ttl,
        families=saved.kept.get(FAMILIES, {}),
        are_authentic=are_authentic,
    )
    reviews = Reviews(transport, timeout=config.request_timeout)
    access = CallerAccess(reviews, store, is_up=lambda: probe.may_be_up, cause=lambda: probe.cause)
    stack.push_async_callback(access.close)
    spawn(store.run())

    def size() -> int:
        return store.cache.size + store.families.size

    if config.client_ca_file is None:
        return OpenedAccess(access, store.cache.clock, [access.issued], size=size)
    assert isinstance(credentials, ClientCertificate)
    own = node.own_name(credentials, config.client_ca_file)
    certificates = NodeCertificates(own, node.accepted_before(saved.kept.get(node.SPACE, {})))
    nodes = node.NodeAccess(
        access,
        credentials,
        certificates,
        journal,
        kubelet=None if config.kubelet_unit is None else KubeletProcess(config.kubelet_unit),
        is_up=lambda: probe.may_be_up,
    )
    spawn(nodes.run(is_accepted=lambda: probe.state == "up"))
    name = own.removeprefix(node.PREFIX)
    restart = RestartReviews(access, reviews, known)
    access.on_allowed.append(restart.allowed)
    issued = [access.issued, restart.issued]
    return OpenedAccess(
        nodes,
        store.cache.clock,
        issued,
        name,
        rights=access.rights,
        has_read=nodes.has_read,
        size=size,
    )
