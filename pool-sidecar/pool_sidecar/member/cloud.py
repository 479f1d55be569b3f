"""The API server as this node speaks to it, with kubelet's own credential: over the own link, or a
lent one. The same TLS from end to end in both cases.
"""

from typing import Any, Final

from edge_sidecars.kubeapi import ApiClient, Credentials
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.process import VERSION
from pool_sidecar.core.pool_member import Link
from pool_sidecar.member.member import Member

# Seconds; a heartbeat that takes longer is tried anew, over another lender after two.
TIMEOUT: Final = 4.0
# Seconds; heartbeats are 10 apart, and two new TLS connections for each cost 10 KB.
POOLED_FOR: Final = 25.0
# Bytes; a Node has 5-15 KB.
LONGEST: Final = 1024 * 1024


class Cloud:
    def __init__(self, member: Member, credentials: Credentials) -> None:
        self._member = member
        self._api = ApiClient(
            credentials,
            user_agent=f"pool-sidecar/{VERSION} ({member.config.node})",
            pooled_for=POOLED_FOR,
            max_body=LONGEST,
            detour=self._detour,
        )

    @property
    def url(self) -> str:
        return self._api.url

    @property
    def proxy(self) -> HttpProxy | None:
        """Of the own link."""
        return self._api.proxy

    @property
    def is_there(self) -> bool:
        """Whether there is a way now."""
        return self._member.pool.link(boottime()) is not Link.NONE

    async def close(self) -> None:
        await self._api.close()

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Raises as `ApiClient.request`."""
        return await self._api.request(
            method, path, timeout=TIMEOUT, body=body, content_type=content_type, pooled=True
        )

    def _detour(self) -> HttpProxy | None:
        proxy = self._member.proxy
        if proxy.bound is None or self._member.pool.link(boottime()) is not Link.LENT:
            return None
        return HttpProxy(f"http://{proxy.bound}", f"Bearer {proxy.own_token}")
