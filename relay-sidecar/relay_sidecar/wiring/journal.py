"""The journal as the flags say, and with `--keep-secrets` what is sealed in it."""

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.walstore.files import DirectoryInUse
from relay_sidecar.config.config import Config
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.journal.rows import Room
from relay_sidecar.journal.sealing.authentic_rows import without_tags
from relay_sidecar.journal.sealing.key_file import ExposedKey, NoKey
from relay_sidecar.journal.sealing.sealed_secrets import DATA_KEY, SPACE, SealedSecrets
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.streams.seen_objects import seen_budget
from relay_sidecar.telemetry.status import JournalStatus, SecretsStatus


@dataclass(frozen=True)
class OpenedJournal:
    """`saved`: what an earlier life left. `secrets` None: Secrets are in memory only."""

    config: Config
    journal: Journal
    saved: Saved
    secrets: SealedSecrets | None = None

    @property
    def sealer(self) -> Sealer | None:
        return None if self.secrets is None else self.secrets.sealer

    @property
    def are_rights_authentic(self) -> bool:
        """What was saved of rights is known to be a relay's."""
        return self.secrets is not None and self.secrets.rows.are_believed

    @property
    def rows_rejected(self) -> int:
        return 0 if self.secrets is None else self.secrets.rows.rejected

    def status(self) -> JournalStatus:
        directory = self.config.data_dir
        return JournalStatus(
            directory=None if directory is None else str(directory),
            failure=self.journal.failure,
            note=self.saved.note,
        )

    def secrets_status(self) -> SecretsStatus:
        if self.secrets is None:
            return SecretsStatus()
        is_kept = self.secrets.sealer.wrapped is not None
        return SecretsStatus(is_kept=is_kept, failure=self.secrets.failure)

    def key_failure(self) -> str | None:
        """Why a restart would not unseal what is kept, with the key file as it is now."""
        key_file, directory = self.config.keep_secrets, self.config.data_dir
        if self.secrets is None or key_file is None or directory is None:
            return None
        return self.secrets.sealer.key_failure(
            key_file, data_dir=directory, credentials_dir=_credentials_dir()
        )


async def open_journal(config: Config, stack: AsyncExitStack, *, budget: int) -> OpenedJournal:
    """`budget`: bytes of what is kept in memory. Raises `BadInput`."""
    try:
        journal = await Journal.open(
            config.data_dir,
            overwrites=config.keep_secrets is not None,
            room=Room(streams=budget, seen=seen_budget(budget)),
        )
    except DirectoryInUse as error:
        raise BadInput(f"--data-dir {config.data_dir}: {error}") from error
    stack.push_async_callback(journal.close)
    saved = await journal.load()
    if config.keep_secrets is not None:
        return _unsealed(config, config.keep_secrets, journal, saved)
    if SPACE in saved.kept:
        saved = without_tags(saved)
    return OpenedJournal(config, journal, saved)


def _unsealed(config: Config, key_file: Path, journal: Journal, saved: Saved) -> OpenedJournal:
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
    return OpenedJournal(config, journal, restored, secrets)


def _credentials_dir() -> Path | None:
    found = os.environ.get("CREDENTIALS_DIRECTORY")
    return None if found is None else Path(found)
