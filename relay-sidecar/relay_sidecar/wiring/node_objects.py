"""What the node's components need, fetched by the relay: only where it acts for a node."""

from typing import TYPE_CHECKING

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiTransport
from relay_sidecar.config.config import Config
from relay_sidecar.core.node_needs import pods_of
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.node_objects import NodeObjects
from relay_sidecar.upstream.node_source import NodeSource

if TYPE_CHECKING:
    from relay_sidecar.kept_tokens.kept_tokens import KeptTokens


def node_objects(
    config: Config,
    node: str,
    streams: Streams,
    transport: ApiTransport,
    probe: LinkProbe,
    journal: Journal,
    *,
    tokens: "KeptTokens | None",
) -> NodeObjects:
    source = NodeSource(
        transport,
        timeout=config.request_timeout,
        met=probe.met,
        authenticated=probe.authenticated,
    )

    async def remember(resource: ResourceName, item: Item, asked_at: float) -> None:
        records = streams.seen.remember(
            resource, item, at=asked_at, asked_at=asked_at, is_of_node=True
        )
        if records:
            await journal.commit(*records)

    return NodeObjects(node, pods_of(node), streams, source, remember, tokens)
