"""Upstream's reviews of callers, persisted: they outlast a restart while offline.

Guarantee: how long upstream has not answered is saved as well, each minute, so that time without
the relay does not make a decision younger. The salt of the keyed hashes is made once.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping

from edge_sidecars.runtime.clock import boot_id, boottime
from relay_sidecar.core.access.authorization import AuthorizationCache, saved_clock
from relay_sidecar.core.access.expiry import OfflineClock
from relay_sidecar.core.access.token_families import TokenFamilies
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob

# The journal's spaces in which decisions are kept, and for which questions a new token needs some.
SPACE = "access"
FAMILIES = "token-families"
SALT = b"salt"
SALT_LENGTH = 32
# Seconds between two records of how long upstream has not answered, but for a short offline_ttl.
CLOCK_KEPT_EVERY = 60.0
# So many records in the course of an offline_ttl at least, and on the whole while upstream answers.
CLOCK_KEEPS = 48


class AuthorizationStore:
    """`heard_at`: when upstream answered last, by the boot clock."""

    def __init__(
        self,
        cache: AuthorizationCache,
        journal: Journal,
        *,
        heard_at: Callable[[], float],
        families: TokenFamilies,
    ) -> None:
        self.cache = cache
        self.families = families
        # By the link's own verdict: false also while there is none yet.
        self.is_up = False
        self._journal = journal
        self._heard_at = heard_at
        self._clock_saved_at = boottime()
        journal.rewrite_from(self._state)

    @classmethod
    async def open(
        cls,
        journal: Journal,
        saved: Mapping[bytes, bytes],
        *,
        heard_at: Callable[[], float],
        ttl: float,
        offline_ttl: float,
        families: Mapping[bytes, bytes] | None = None,
        are_authentic: bool = False,
    ) -> "AuthorizationStore":
        """`saved` and `families`: what an earlier life left in the journal's spaces;
        `are_authentic`: only this relay can have written it."""
        salt = saved.get(SALT, b"")
        if len(salt) != SALT_LENGTH:
            salt = secrets.token_bytes(SALT_LENGTH)
            await journal.commit(Blob(SPACE, SALT, salt))
        readable = {key.decode(errors="replace"): value for key, value in saved.items()}
        clock = OfflineClock(
            boot_id=await asyncio.to_thread(boot_id), now=boottime(), saved=saved_clock(readable)
        )
        cache = AuthorizationCache(salt=salt, ttl=ttl, offline_ttl=offline_ttl, clock=clock)
        cache.restore(readable, now=boottime(), are_authentic=are_authentic)
        remembered = TokenFamilies()
        remembered.restore(families or {})
        return cls(cache, journal, heard_at=heard_at, families=remembered)

    async def run(self) -> None:
        """Saves, until it is cancelled, how long upstream has not answered."""
        interval = min(CLOCK_KEPT_EVERY, max(self.cache.offline_ttl / CLOCK_KEEPS, 1.0))
        while True:
            await asyncio.sleep(interval)
            now = boottime()
            if self.is_up:
                self.cache.contact(now=self._heard_at())
            is_due = now - self._clock_saved_at >= self.cache.offline_ttl / CLOCK_KEEPS
            if is_due or not self.is_up:
                await self.save_clock()

    def link(self, is_up: bool) -> bool:
        """Whether the clock is to be saved now."""
        has_gone = self.is_up and not is_up
        if is_up:
            self.cache.connected(now=boottime())
        elif has_gone:
            self.cache.contact(now=self._heard_at())
        self.is_up = is_up
        return has_gone

    async def save(self) -> None:
        """What is new."""
        unsaved = self.cache.take_unkept(now=boottime())
        if unsaved:
            await self._journal.commit(*_blobs(unsaved))

    def save_families(self) -> None:
        """What is new, at once."""
        unsaved = self.families.take_unkept()
        if unsaved:
            self._journal.send(*(Blob(FAMILIES, key, value) for key, value in unsaved.items()))

    async def save_clock(self) -> None:
        self._clock_saved_at = boottime()
        await self._journal.commit(*_blobs(self.cache.clock_record(now=self._clock_saved_at)))

    def _state(self) -> list[Blob]:
        return [
            Blob(SPACE, SALT, self.cache.salt),
            *_blobs(self.cache.snapshot(now=boottime())),
            *(Blob(FAMILIES, key, value) for key, value in self.families.snapshot().items()),
        ]


def _blobs(entries: Mapping[str, bytes | None]) -> list[Blob]:
    return [Blob(SPACE, key.encode(), value) for key, value in entries.items()]
