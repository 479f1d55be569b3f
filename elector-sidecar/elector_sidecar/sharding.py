"""The shards of one elector: performs what `ShardElection` asks, and reports what happened.

Owns the one watch of all the election's Leases. Knows no rule: those are in `shards`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from elector_sidecar.config.config import Config
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_writes import Candidate
from elector_sidecar.leases.lease_client import Applied, Conflicted, Found, Lost, Refused
from elector_sidecar.leases.shard_client import Listed, ShardLeaseClient
from elector_sidecar.shards.lease_stream import ListLeases, ReadNamed, WatchLeases
from elector_sidecar.shards.members.membership import ShardMember
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.shard_view import ShardsView, UnownedTime
from elector_sidecar.shards.table.table_writes import WriteNamed

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Sharding:
    def __init__(self, config: Config, server: ApiClient, *, identity: str) -> None:
        candidate = Candidate(
            identity,
            config.namespace,
            config.member_lease,
            config.timing,
            take_missing=True,
            shares_watch=True,
        )
        self.machine = ShardElection(
            ShardMember(
                candidate, config.lease, config.shards or 0, config.shard_settle, _pod(config)
            ),
            now=boottime(),
        )
        self.client = ShardLeaseClient(server, config)
        self._watching: asyncio.Task[None] | None = None
        self._told: tuple[object, ...] = ()
        self._unowned_time = UnownedTime()

    def unowned_seconds(self, now: float) -> float:
        """Since the start, summed over shards that no living member owned."""
        self._unowned_time.look(now, self.machine.view(now).unowned)
        return self._unowned_time.seconds

    def is_settled(self, now: float) -> bool:
        """Whether the main does no work any more of a term that was given up (S6)."""
        return self.machine.is_settled(now)

    def has_changed(self, now: float) -> bool:
        """Whether something changed since it was asked that somebody waits for."""
        view = self.machine.view(now)
        self._unowned_time.look(now, view.unowned)
        state = _state(view)
        if state == self._told:
            return False
        before, self._told = self._told, state
        if not before or before[0] != state[0]:
            logger.info(
                "shards changed",
                extra=fields(
                    owned=len(view.owned),
                    handing_over=len(view.handing_over),
                    unowned=view.unowned,
                    members=len(view.members),
                ),
            )
        return True

    def perform(self, command: object, spawn: Spawn, kick: Callable[[], None]) -> None:
        match command:
            case ListLeases():
                spawn(self._list(command, kick))
            case ReadNamed():
                spawn(self._read(command, kick))
            case WriteNamed():
                spawn(self._write(command, kick))
            case WatchLeases():
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = spawn(self._watch(command, kick))

    async def _list(self, command: ListLeases, kick: Callable[[], None]) -> None:
        match await self.client.list():
            case Listed(leases, version):
                self.machine.list_answered(command.id, boottime(), leases, version)
            case Lost() | Refused() as failure:
                _report(failure, command.id, self.machine.list_failed)
        kick()

    async def _read(self, command: ReadNamed, kick: Callable[[], None]) -> None:
        match await self.client.read_named(command.name):
            case Found(lease):
                self.machine.named_answered(command.id, boottime(), lease)
            case Lost() | Refused() as failure:
                _report(failure, command.id, self.machine.named_failed)
        kick()

    async def _write(self, write: WriteNamed, kick: Callable[[], None]) -> None:
        match await self.client.write_named(write):
            case Applied(lease):
                self.machine.write_answered(write.id, boottime(), lease)
            case Conflicted():
                self.machine.write_rejected(write.id, boottime())
            case Lost() | Refused() as failure:
                _report(failure, write.id, self.machine.write_failed)
        kick()

    async def _watch(self, watch: WatchLeases, kick: Callable[[], None]) -> None:
        def on_event(lease: Lease, is_deleted: bool) -> None:
            if self.machine.event_arrived(watch.id, boottime(), lease, is_deleted=is_deleted):
                kick()

        is_orderly = await self.client.watch_all(watch, on_event)
        self.machine.watch_ended(watch.id, boottime(), is_orderly=is_orderly)
        kick()


class _FailureReport(Protocol):
    def __call__(
        self, id: int, now: float, /, *, is_refused: bool, retry_after: float | None
    ) -> None: ...


def _report(failure: Lost | Refused, id: int, failed: _FailureReport) -> None:
    failed(
        id,
        boottime(),
        is_refused=isinstance(failure, Refused),
        retry_after=failure.retry_after,
    )


def _pod(config: Config) -> dict[str, str] | None:
    """The owner reference by which the member Lease goes with its pod."""
    if config.pod_name is None or config.pod_uid is None:
        return None
    return {"apiVersion": "v1", "kind": "Pod", "name": config.pod_name, "uid": config.pod_uid}


def _state(view: ShardsView) -> tuple[object, ...]:
    return (
        tuple((it.shard, it.fencing_token) for it in view.owned),
        tuple((it.shard, it.fencing_token) for it in view.handing_over),
        view.members,
        view.owners,
        view.reason.partition(";")[0],
    )
