"""Secrets that outlast a restart: only with `--keep-secrets`."""

import os
from pathlib import Path

from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.config.config import Config
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.journal.sealing.key_file import ExposedKey, NoKey
from relay_sidecar.journal.sealing.sealed_secrets import DATA_KEY, SPACE, SealedSecrets
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.telemetry.status import SecretsStatus


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
