"""With `--pool`: the relay follows the pool-sidecar of its node. Imported only there."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from edge_sidecars.kubeapi import ApiClient, ApiTransport, Plain
from edge_sidecars.kubeapi.credentials import watched_token
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.process import VERSION
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.core.pool_sources import SourcesLine
from relay_sidecar.pool.detour import Detour, NeighbourProxy
from relay_sidecar.pool.follower import follow
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.wiring.access import Spawn


class NodePool:
    """`url`, `token_file`, `connect`: of the pool-sidecar."""

    def __init__(self, url: str, token_file: Path, connect: Address, stack: AsyncExitStack) -> None:
        token = watched_token(token_file)
        self.proxy = NeighbourProxy(connect, token)
        # Called after each line.
        self.on_line: list[Callable[[], None]] = []
        self._client = ApiClient(Plain(url, token), user_agent=f"relay-sidecar/{VERSION}")
        stack.push_async_callback(self._client.close)

    def detour(
        self,
        probe: LinkProbe,
        *,
        own: ApiTransport,
        own_link: Callable[[], UpstreamLink],
        moved: Callable[[], None],
        spawn: Spawn,
    ) -> Detour:
        """`own`: never goes over a neighbour."""

        def own_probe() -> LinkProbe:
            return LinkProbe(own, own_link(), is_logged=False)

        return Detour(self.proxy.sources, probe, own_probe=own_probe, moved=moved, spawn=spawn)

    def start(self, detour: Detour, spawn: Spawn) -> None:
        def heard(line: SourcesLine) -> None:
            detour.heard(line)
            for observer in self.on_line:
                observer()

        spawn(detour.run())
        spawn(follow(self._client, heard))
