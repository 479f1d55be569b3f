"""With `--keep-secrets`, on a node: kept answers to TokenRequest. Imported only there."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from relay_sidecar.config.config import Config
from relay_sidecar.core.access.offline_clock import OfflineClock
from relay_sidecar.core.node_needs import pods_of
from relay_sidecar.core.token_request import TokenRequestKey
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.journal.sealing.sealed_secrets import TOKENS
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.kept_tokens.kept_tokens import KeptTokens
from relay_sidecar.kept_tokens.token_requests import TokenRequests
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.telemetry.status import KeptCallerStatus, KeptTokenStatus
from relay_sidecar.upstream.proxy import Proxy


class NodeTokens:
    """Kept TokenRequest answers of one node."""

    def __init__(
        self,
        config: Config,
        node: str,
        journal: Journal,
        sealer: Sealer,
        clock: OfflineClock,
        counters: RelayCounters,
    ) -> None:
        self.kept = KeptTokens(journal, sealer, clock, counters, retain=config.retain)
        self._node = node
        self._timeout = config.request_timeout

    def requests(self, proxy: Proxy) -> TokenRequests:
        return TokenRequests(proxy, self.kept, timeout=self._timeout)

    def statuses(self) -> list[KeptTokenStatus]:
        return [_status(key) for key in self.kept]

    def callers(
        self, rights: Callable[[str], Sequence[str]], has_read: Callable[[str], bool]
    ) -> list[KeptCallerStatus]:
        """`rights`: what a token was allowed; `has_read`: whether its pod reads here."""
        return [
            KeptCallerStatus(
                namespace=key.namespace,
                service_account=key.service_account,
                pod_uid=key.pod_uid,
                rights=rights(token),
                has_read=has_read(token),
            )
            for key, token in self.kept.tokens()
        ]

    async def restore(self, saved: Saved) -> None:
        await self.kept.restore(saved.kept.get(TOKENS, {}))

    async def run(self, streams: Streams) -> None:
        await self.kept.run(partial(self._open, streams))

    def _open(self, streams: Streams) -> Stream:
        return streams.open(pods_of(self._node), now=time.monotonic())


def _status(key: TokenRequestKey) -> KeptTokenStatus:
    return KeptTokenStatus(
        namespace=key.namespace,
        service_account=key.service_account,
        pod_name=key.bound_object_ref.name if key.bound_object_ref else "",
        pod_uid=key.pod_uid,
        audiences=key.audiences,
        expiration_seconds=key.expiration_seconds,
    )
