"""Secrets and tokens that outlast a restart: only with `--keep-secrets`."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.access.kept_tokens import KeptTokens
from relay_sidecar.config.config import Config
from relay_sidecar.core.access.offline_clock import OfflineClock
from relay_sidecar.core.node_needs import pods_of
from relay_sidecar.core.token_requests.token_request import TokenRequestKey
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.journal.sealing.key_file import ExposedKey, NoKey
from relay_sidecar.journal.sealing.sealed_secrets import DATA_KEY, SPACE, TOKENS, SealedSecrets
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.telemetry.status import KeptCallerStatus, KeptTokenStatus, SecretsStatus
from relay_sidecar.upstream.proxy import Proxy
from relay_sidecar.web.token_requests import TokenRequests


def _credentials_dir() -> Path | None:
    found = os.environ.get("CREDENTIALS_DIRECTORY")
    return None if found is None else Path(found)


def unseal(
    config: Config, key_file: Path, journal: Journal, saved: Saved
) -> tuple[SealedSecrets, Saved]:
    """From here on Secrets are sealed into the journal; `saved` with those that can be read.
    Raises `BadInput`."""
    assert config.data_dir is not None
    try:
        sealer = Sealer.open(
            key_file,
            data_dir=config.data_dir,
            credentials_dir=_credentials_dir(),
            wrapped=saved.kept.get(SPACE, {}).get(DATA_KEY),
        )
    except (NoKey, ExposedKey) as error:
        sealer = Sealer.without_key(str(error))
    for lack in (sealer.warning, sealer.failure):
        if lack is not None:
            logger.warning("how Secrets are kept", extra=fields(why=lack))
    secrets = SealedSecrets(sealer)
    restored, outdated = secrets.restored(saved)
    journal.store_as(secrets.stored, secrets.all_stored)
    journal.rewrite_from(secrets.records)
    if secrets.rows.rejected:
        logger.warning(
            "rows of the journal are not authentic", extra=fields(rows=secrets.rows.rejected)
        )
        journal.send(*outdated)
    return secrets, restored


def secrets_status(secrets: SealedSecrets) -> SecretsStatus:
    is_kept = secrets.sealer.wrapped is not None
    return SecretsStatus(is_kept=is_kept, failure=secrets.failure)


def key_failure(config: Config, secrets: SealedSecrets) -> str | None:
    """Why a restart would not unseal what is kept, with the key file as it is now."""
    assert config.keep_secrets is not None
    assert config.data_dir is not None
    return secrets.sealer.key_failure(
        config.keep_secrets, data_dir=config.data_dir, credentials_dir=_credentials_dir()
    )


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
