"""Which objects are this process's to work on, as its elector says.

Guarantees: `owns` and `may_act` are functions of the clock when they are called. Whatever ends the
ownership of a shard (a hand-over, another owner, an expiry, a new fencing token), `on_lost` is
called with it once, and the shard is not owned again before that has returned. A hand-over is
confirmed to the elector only then. A stream that breaks ends no ownership: its last document counts
until its deadline. The arithmetic is `shards.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from edge_sidecars.kubeapi import ApiClient, ApiError, Plain, Unreachable
from edge_sidecars.leader_client.document_stream import DocumentStream, Follower
from edge_sidecars.leader_client.shards import Shard, ShardClaims, ShardsDocument
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger

# Seconds; the elector is on this machine, and answers at once.
CONFIRM_TIMEOUT = 1.0

OnLost = Callable[[Sequence[Shard]], Awaitable[None]]
OnGained = Callable[[Sequence[Shard]], None]


class ShardClient(Follower):
    """Follows `/shards` of the elector at `url` while it is entered, or while `run` runs.

    `on_lost`: stops the work on these shards and returns when none of it is going on. `on_gained`:
    called with shards whose objects may be worked on from now on. `request_timeout`: the longest
    that one action of the main takes, in seconds; `may_act` is about that long where it is not
    given another.
    """

    def __init__(
        self,
        url: str,
        *,
        on_lost: OnLost | None = None,
        on_gained: OnGained | None = None,
        request_timeout: float = 0.0,
        user_agent: str = "shard-client",
    ) -> None:
        super().__init__()
        self._url = url
        self._on_lost = on_lost
        self._on_gained = on_gained
        self._request_timeout = request_timeout
        self._elector = ApiClient(Plain(url), user_agent=user_agent)
        self._claims = ShardClaims()
        self._group: asyncio.TaskGroup | None = None

    @property
    def document(self) -> ShardsDocument | None:
        """The elector's last; for what is owned ask `owned`."""
        return self._claims.document

    @property
    def owned(self) -> frozenset[int]:
        """The numbers of the shards that are owned now."""
        return frozenset() if self._has_resigned else frozenset(self._claims.owned(boottime()))

    @property
    def selector(self) -> str | None:
        """The `shardSelector` for lists and watches of what is owned now; None where nothing is:
        then nothing may be listed, for an empty parameter means everything."""
        document = self._claims.document
        return document.selector if document is not None and self.owned else None

    @property
    def remaining(self) -> float:
        """Seconds for which the ownership is proven."""
        return max(self._claims.proof.deadline - boottime(), 0.0) if self.owned else 0.0

    def owns(self, uid: str) -> bool:
        """Whether the object with this uid is this process's now."""
        return self.token(uid) is not None

    def token(self, uid: str) -> str | None:
        """The fencing token of the object's shard; None where it is not owned now."""
        if self._has_resigned:
            return None
        shard = self._claims.owner_of(uid, boottime())
        return None if shard is None else shard.token

    def owns_shard(self, number: int) -> bool:
        return not self._has_resigned and self._claims.owns(number, boottime())

    def may_act(self, uid: str, *, within: float | None = None) -> bool:
        """Whether an action on the object that begins now and takes `within` seconds at most ends
        while the ownership is proven."""
        return self.owns(uid) and self._is_proven(within)

    def may_act_on_shard(self, number: int, *, within: float | None = None) -> bool:
        return self.owns_shard(number) and self._is_proven(within)

    async def changes(self, *, resync: float | None = None) -> AsyncIterator[frozenset[int]]:
        """Yields `owned` at once, and again after each change: shards were gained, lost, or are not
        worked on any more. Several changes while the caller works are one, and none is missed.
        `resync`: seconds after which it yields although nothing changed."""
        while True:
            changed = self._changed  # what changes from here on sets this very event
            yield self.owned
            await is_set(changed, within=resync)

    async def idle(self) -> None:
        """Returns when nothing is owned and the work on what was owned has ended."""
        while not self._claims.is_idle:
            await self._changed.wait()

    async def run(self) -> None:
        stream = DocumentStream(
            "/shards",
            parse=ShardsDocument.parse,
            proof=self._claims.proof,
            heard=self._heard,
            expired=self._update,
        )
        try:
            async with asyncio.TaskGroup() as self._group:
                self._group.create_task(stream.run(self._elector))
        finally:
            self._group = None
            await self._elector.close()

    def _is_proven(self, within: float | None) -> bool:
        longest = self._request_timeout if within is None else within
        return boottime() + longest < self._claims.proof.deadline

    def _heard(self, document: ShardsDocument) -> None:
        self._claims.heard(document, boottime())
        self._update()

    def _update(self) -> None:
        changes = self._claims.changes(boottime(), has_resigned=self._has_resigned)
        if self._group is None:
            return
        if changes.lost:
            logger.info("shards lost", extra=fields(shards=_numbers(changes.lost)))
            self._group.create_task(self._stop(changes.lost))
        if changes.gained:
            logger.info("shards gained", extra=fields(shards=_numbers(changes.gained)))
            if self._on_gained is not None:
                self._on_gained(changes.gained)
        if to_confirm := self._claims.to_confirm():
            self._group.create_task(self._confirm(to_confirm))
        if changes.lost or changes.gained:
            self._wake()

    async def _stop(self, lost: Sequence[Shard]) -> None:
        if self._on_lost is not None:
            await self._on_lost(lost)
        self._claims.stopped(lost)
        self._update()
        self._wake()

    async def _confirm(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            try:
                await self._elector.fetch(
                    "POST",
                    f"/shards/{shard.number}/released",
                    timeout=CONFIRM_TIMEOUT,
                    params={"token": shard.token},
                    pooled=True,
                )
            except (ApiError, Unreachable) as error:
                logger.warning(
                    "the elector did not take a confirmation",
                    extra=fields(shard=shard.number, why=str(error)),
                )
                self._claims.unconfirmed(shard)


def _numbers(shards: Sequence[Shard]) -> str:
    """As 0-3,7."""
    runs: list[list[int]] = []
    for number in sorted(it.number for it in shards):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
