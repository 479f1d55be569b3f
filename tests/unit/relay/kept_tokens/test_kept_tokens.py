"""Kept answers to TokenRequest, from one life of the relay to the next, with a disk that fails."""

import os
from collections.abc import Mapping
from pathlib import Path

from relay_sidecar.core.access.expiry import OfflineClock
from relay_sidecar.core.token_request import BoundObjectReference, TokenRequestKey
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob, Saved
from relay_sidecar.journal.sealing.sealed_secrets import DATA_KEY, SPACE, TOKENS, SealedSecrets
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.kept_tokens.kept_answers import TokenAnswer
from relay_sidecar.kept_tokens.kept_tokens import KeptTokens
from relay_sidecar.telemetry.metrics import RelayCounters
from tests.unit.relay.journal.journal_history import load, play, until
from tests.unit.relay.journal.test_failures import no_file_longer_than

ANSWER = TokenAnswer(content_type="application/json", body=b'{"status":{"token":"t"}}')


def request(pod: str) -> TokenRequestKey:
    return TokenRequestKey(
        namespace="shop",
        service_account="default",
        service_account_uid="",
        audiences=(),
        expiration_seconds=3600,
        bound_object_ref=BoundObjectReference(api_version="v1", kind="Pod", name=pod, uid=pod),
        content_type="application/json",
    )


class Life:
    """Of a relay with the key."""

    def __init__(self, journal: Journal, saved: Saved, *, key: Path, directory: Path) -> None:
        wrapped = saved.kept.get(SPACE, {}).get(DATA_KEY)
        sealer = Sealer.open(key, data_dir=directory, credentials_dir=None, wrapped=wrapped)
        secrets = SealedSecrets(sealer)
        journal.store_as(secrets.stored)
        journal.rewrite_from(secrets.records)
        clock = OfflineClock(boot_id="boot", now=0.0)
        self.tokens = KeptTokens(journal, sealer, clock, RelayCounters(), retain=3600.0)
        self._saved: Mapping[bytes, bytes] = saved.kept.get(TOKENS, {})

    async def restore(self) -> None:
        await self.tokens.restore(self._saved)

    async def keep(self, pod: str) -> None:
        await self.tokens.answered(request(pod), ANSWER, status=201, is_this_node=True)


def test_l3_what_is_kept_of_tokens_is_counted(tmp_path: Path) -> None:
    directory, key = tmp_path / "data", tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)

    async def run(journal: Journal, saved: Saved) -> None:
        life = Life(journal, saved, key=key, directory=directory)
        assert life.tokens.size == 0
        for number in range(10):
            await life.keep(f"pod-{number}")
        # The answer, and once more as it is persisted.
        assert life.tokens.size >= 10 * 2 * len(ANSWER.body)

    play(directory, run)


def test_what_an_earlier_life_kept_outlasts_a_disk_that_was_full(tmp_path: Path) -> None:
    directory, key = tmp_path / "data", tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)

    async def first(journal: Journal, saved: Saved) -> None:
        await Life(journal, saved, key=key, directory=directory).keep("earlier")

    async def second(journal: Journal, saved: Saved) -> None:
        life = Life(journal, saved, key=key, directory=directory)
        await life.restore()
        with no_file_longer_than(4096):
            await life.keep("later")
            while journal.failure is None:
                await journal.commit(Blob("others", os.urandom(8), bytes(4096)))
        await until(lambda: journal.failure is None)

    async def third(journal: Journal, saved: Saved) -> None:
        life = Life(journal, saved, key=key, directory=directory)
        await life.restore()
        assert set(life.tokens) == {request("earlier"), request("later")}

    for life in (first, second, third):
        play(directory, life)
    assert len(load(directory).kept[TOKENS]) == 2
