"""Which objects this GM decides about: all while it leads, or those of its shards.

Owns the port of the GM that decides and writes, and its two adapters to the elector. Guarantees:
`owns` and `may_act` are functions of the clock when they are called; before an object is another
GM's, what was going on here about it has ended (with shards; a lead that ends is bounded by its
proof). What only one GM may do, it may do while it `is_leader`: with shards, while shard 0 is its
own.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from edge_sidecars.leader_client import LeaderClient, Shard, ShardClient, shard_of

# Whether an object with this uid is meant.
Covers = Callable[[str], bool]
Changed = Callable[[], None]


def everything(_: str) -> bool:
    return True


class OwnershipListener(Protocol):
    """Who works on objects that are owned; the controller is one."""

    def gained(self, covers: Covers) -> None:
        """These objects are this GM's from now on."""

    def lost(self, covers: Covers) -> None:
        """They are not any more; if they are again, `gained` says so."""

    async def stopped(self, covers: Covers) -> None:
        """Returns when nothing is being done about these objects."""


class Ownership(Protocol):
    @property
    def terms(self) -> int:
        """How often this GM began to lead."""

    def owns(self, uid: str) -> bool:
        """Whether the object is this GM's now."""

    def may_act(self, uid: str) -> bool:
        """Whether it is for as long as one request takes."""

    @property
    def is_leader(self) -> bool: ...

    def may_lead(self) -> bool:
        """Whether it leads for as long as one request takes."""

    @property
    def is_vacant(self) -> bool:
        """Whether this GM may be the next that leads."""

    @property
    def owns_any(self) -> bool: ...

    @property
    def share(self) -> float:
        """Of all objects, from 0 to 1: how many are this GM's where it owns any. Changes no later
        than listeners are called."""

    @property
    def remaining(self) -> float:
        """Seconds for which what is owned is proven to be."""

    def watch(self, listener: OwnershipListener) -> None: ...

    def subscribe(self, changed: Changed) -> None:
        """Called at each change of what is owned."""

    def resign(self) -> None:
        """From now on nothing is owned: the process ends."""

    async def idle(self) -> None:
        """Returns when nothing is owned."""

    async def run(self) -> None:
        """Until cancelled."""


class _Follower:
    """What both adapters have in common."""

    def __init__(self, client: LeaderClient | ShardClient) -> None:
        self._client = client
        self._listeners: list[OwnershipListener] = []

    @property
    def remaining(self) -> float:
        return self._client.remaining

    def watch(self, listener: OwnershipListener) -> None:
        self._listeners.append(listener)

    def resign(self) -> None:
        self._client.resign()

    async def run(self) -> None:
        await self._client.run()


class SingleLeader(_Follower):
    """Everything is the leader's."""

    def __init__(self, url: str, *, request_timeout: float, user_agent: str) -> None:
        self.client = LeaderClient(url, request_timeout=request_timeout, user_agent=user_agent)
        super().__init__(self.client)
        self.client.subscribe(self._changed)

    @property
    def terms(self) -> int:
        return self.client.terms

    def owns(self, uid: str) -> bool:
        return self.client.is_leader

    def may_act(self, uid: str) -> bool:
        return self.client.may_act()

    @property
    def is_leader(self) -> bool:
        return self.client.is_leader

    def may_lead(self) -> bool:
        return self.client.may_act()

    @property
    def is_vacant(self) -> bool:
        return self.client.is_vacant

    @property
    def owns_any(self) -> bool:
        return self.client.is_leader

    @property
    def share(self) -> float:
        return 1.0

    def subscribe(self, changed: Changed) -> None:
        self.client.subscribe(changed)

    async def idle(self) -> None:
        await self.client.wait_for(is_leader=False)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener.lost(everything)
            if self.client.is_leader:
                listener.gained(everything)


class ShardOwner(_Follower):
    """Each object is of the GM that owns its uid's shard."""

    def __init__(self, url: str, *, request_timeout: float, user_agent: str) -> None:
        self.client = ShardClient(
            url,
            on_lost=self._lost,
            on_gained=self._gained,
            request_timeout=request_timeout,
            user_agent=user_agent,
        )
        super().__init__(self.client)
        self.terms = 0
        # Shards that came here.
        self.moves = 0
        self._subscribers: list[Changed] = []

    def owns(self, uid: str) -> bool:
        return self.client.owns(uid)

    def may_act(self, uid: str) -> bool:
        return self.client.may_act(uid)

    @property
    def is_leader(self) -> bool:
        return self.client.owns_shard(0)

    def may_lead(self) -> bool:
        return self.client.may_act_on_shard(0)

    @property
    def is_vacant(self) -> bool:
        document = self.client.document
        return document is None or document.unowned > 0

    @property
    def owns_any(self) -> bool:
        return bool(self.client.owned)

    @property
    def share(self) -> float:
        document = self.client.document
        return 0.0 if document is None else len(document.owned) / document.shards

    def subscribe(self, changed: Changed) -> None:
        self._subscribers.append(changed)

    async def idle(self) -> None:
        await self.client.idle()

    def _gained(self, shards: Sequence[Shard]) -> None:
        self.moves += len(shards)
        self.terms += any(it.number == 0 for it in shards)
        for listener in self._listeners:
            listener.gained(_covers(shards))
        self._tell()

    async def _lost(self, shards: Sequence[Shard]) -> None:
        covers = _covers(shards)
        for listener in self._listeners:
            listener.lost(covers)
        self._tell()
        for listener in self._listeners:
            await listener.stopped(covers)

    def _tell(self) -> None:
        for changed in self._subscribers:
            changed()


def _covers(shards: Sequence[Shard]) -> Covers:
    numbers = {it.number for it in shards}
    of = shards[0].of

    def covers(uid: str) -> bool:
        return shard_of(uid, of) in numbers

    return covers
