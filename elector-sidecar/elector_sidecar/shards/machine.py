"""The machine of an election for shards: performs what `ShardElection` asks, reports what happened.

Owns the one watch of all the election's Leases. Knows no rule.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.metrics import Metric, counter, gauge
from elector_sidecar.config.config import Config
from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_writes import Candidate
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.leases.lease_client import Applied, Conflicted, Found, Lost, Refused
from elector_sidecar.machine import OwnLease, Pump, why_waiting
from elector_sidecar.shards.lease_stream import ListLeases, ReadNamed, WatchLeases
from elector_sidecar.shards.members.membership import ShardMember
from elector_sidecar.shards.shard_client import Listed, ShardLeaseClient
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.shard_view import ShardsView, UnownedTime
from elector_sidecar.shards.table.table_writes import WriteNamed


class ShardMachine:
    has_confirmations = True

    def __init__(
        self,
        config: Config,
        server: ApiClient,
        *,
        identity: str,
        answers_at: AnswersAt | None = None,
    ) -> None:
        candidate = Candidate(
            identity,
            config.namespace,
            config.member_lease,
            config.timing,
            take_missing=True,
            shares_watch=True,
            answers_at=answers_at,
        )
        self.shards = ShardElection(
            ShardMember(
                candidate, config.lease, config.shards or 0, config.shard_settle, _pod(config)
            ),
            now=boottime(),
        )
        self.election = self.shards.election
        self.client = ShardLeaseClient(server, config)
        self._own = OwnLease(self.election, self.client)
        self._watching: asyncio.Task[None] | None = None
        self._state: tuple[object, ...] = ()
        self._unowned_time = UnownedTime()
        self.is_settled = self.shards.is_settled
        self.advance = self.shards.advance
        self.wake_at = self.shards.wake_at

    def view(self, now: float) -> ElectionView:
        """Of shard 0."""
        return self.shards.leader_view(now, self.election.view(now))

    def reason(self, now: float) -> str:
        return self.shards.reason(now) or why_waiting(self.election, now)

    def work(self, now: float) -> tuple[bool, int]:
        """A member without shards has put nothing to work."""
        return bool(self.shards.owned(now)), self.shards.ownership.takes

    def set_intent(self, now: float, intent: Intent) -> None:
        self.shards.set_intent(now, intent)

    def tell(self, now: float, until: float) -> None:
        """What is promised of the lead is promised of shard 0 (S6)."""
        self.shards.tell(now, [0], until)

    def measure(self, now: float) -> Iterable[Metric]:
        view, ownership = self.shards.view(now), self.shards.ownership
        self._unowned_time.look(now, view.unowned)
        return (
            gauge("elector_shards_owned", "Shards that this member owns now.", len(view.owned)),
            gauge(
                "elector_shards_unowned",
                "Shards that no living member owns, as this member knows the table.",
                view.unowned,
            ),
            counter(
                "elector_shards_unowned_seconds_total",
                "Seconds in which a shard had no living owner, as this member knows the table; "
                "summed.",
                self._unowned_time.seconds,
            ),
            gauge(
                "elector_shard_members",
                "Living members that share the shards.",
                len(view.members),
            ),
            counter(
                "elector_shard_moves_total",
                "Shards that this member took, handed over or lost.",
                (
                    ("taken", ownership.takes),
                    ("handed over", ownership.hand_overs),
                    ("lost", ownership.losses),
                ),
                label="reason",
            ),
            counter(
                "elector_shards_waited_for_validity_total",
                "Hand-overs that the main did not confirm: the shard waited for its validity to "
                "end.",
                ownership.unconfirmed_hand_overs,
            ),
        )

    def has_changed(self, now: float) -> bool:
        view = self.shards.view(now)
        self._unowned_time.look(now, view.unowned)
        state = _state(view)
        if state == self._state:
            return False
        before, self._state = self._state, state
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

    def perform(self, command: object, pump: Pump) -> None:
        match command:
            case ListLeases():
                pump.spawn(self._list(command, pump))
            case ReadNamed():
                pump.spawn(self._read(command, pump))
            case WriteNamed():
                pump.spawn(self._write(command, pump))
            case WatchLeases():
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = pump.spawn(self._watch(command, pump))
            case _:
                self._own.perform(command, pump)

    async def _list(self, command: ListLeases, pump: Pump) -> None:
        match await self.client.list():
            case Listed(leases, version):
                self.shards.list_answered(command.id, boottime(), leases, version)
            case Lost() | Refused() as failure:
                _report(failure, command.id, self.shards.list_failed)
        pump.wake()

    async def _read(self, command: ReadNamed, pump: Pump) -> None:
        match await self.client.read_named(command.name):
            case Found(lease):
                self.shards.named_answered(command.id, boottime(), lease)
            case Lost() | Refused() as failure:
                _report(failure, command.id, self.shards.named_failed)
        pump.wake()

    async def _write(self, write: WriteNamed, pump: Pump) -> None:
        match await self.client.write_named(write):
            case Applied(lease):
                self.shards.write_answered(write.id, boottime(), lease)
            case Conflicted():
                self.shards.write_rejected(write.id, boottime())
            case Lost() | Refused() as failure:
                _report(failure, write.id, self.shards.write_failed)
        pump.wake()

    async def _watch(self, watch: WatchLeases, pump: Pump) -> None:
        def on_event(lease: Lease, is_deleted: bool) -> None:
            if self.shards.event_arrived(watch.id, boottime(), lease, is_deleted=is_deleted):
                pump.wake()

        is_orderly = await self.client.watch_all(watch, on_event)
        self.shards.watch_ended(watch.id, boottime(), is_orderly=is_orderly)
        pump.wake()


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
