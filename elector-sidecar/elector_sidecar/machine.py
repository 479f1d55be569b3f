"""What the pump runs: the core of one kind of election, and how its commands are performed.

`Machine` is all that `Elector` knows of it. `SingleMachine` elects one leader; the one that shares
the work is in `shards`. `OwnLease` performs the commands for the Lease that this process holds,
which both have. No rule of election is here: those are in the cores.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Protocol

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.metrics import Metric
from elector_sidecar.config.config import Config
from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.election import Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_watch import ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Candidate, WriteLease
from elector_sidecar.core.moves.moves import MovePolicy
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.leases.lease_client import (
    Applied,
    Conflicted,
    Found,
    LeaseClient,
    Lost,
    Refused,
)


class Pump(Protocol):
    """Where commands are performed."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...

    def wake(self) -> None:
        """Something was reported: the machine is asked again."""


class Machine(Protocol):
    """`election` is that for the Lease that this process holds, `client` the one that asks for it.
    `has_confirmations`: the main confirms by itself what it has stopped working on."""

    has_confirmations: bool

    @property
    def election(self) -> Election: ...

    @property
    def client(self) -> LeaseClient: ...

    # ── what is true ──

    def view(self, now: float) -> ElectionView:
        """Of the lead that /leader and /readyz answer for."""

    def reason(self, now: float) -> str:
        """What the election for the own Lease does not know; "" for nothing."""

    def work(self, now: float) -> tuple[bool, int]:
        """Whether a main may begin work now, and how often one could so far."""

    def is_settled(self, now: float) -> bool:
        """Whether a main is known to have stopped what was given up."""

    def measure(self, now: float) -> Iterable[Metric]:
        """Without the labels of the Lease."""

    # ── what happens ──

    def set_intent(self, now: float, intent: Intent) -> None: ...

    def tell(self, now: float, until: float) -> None:
        """The main was promised the lead until then."""

    def has_changed(self, now: float) -> bool:
        """Whether something that clients wait for changed since this was asked last."""

    def advance(self, now: float, *, wall: float, chance: float) -> Sequence[object]:
        """The commands that are due, as `Election.advance` has them."""

    def wake_at(self, now: float) -> float: ...

    def perform(self, command: object, pump: Pump) -> None: ...


class OwnLease:
    def __init__(self, election: Election, client: LeaseClient) -> None:
        self._election = election
        self._client = client
        self._watching: asyncio.Task[None] | None = None

    def perform(self, command: object, pump: Pump) -> None:
        match command:
            case ReadLease():
                pump.spawn(self._read(command, pump))
            case WriteLease():
                pump.spawn(self._write(command, pump))
            case WatchLease():
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = pump.spawn(self._watch(command, pump))

    async def _read(self, read: ReadLease, pump: Pump) -> None:
        match await self._client.read():
            case Found(lease):
                self._election.read_answered(read.id, boottime(), lease)
            case Lost(retry_after):
                self._election.read_failed(read.id, boottime(), retry_after=retry_after)
        pump.wake()

    async def _write(self, write: WriteLease, pump: Pump) -> None:
        match await self._client.write(write):
            case Applied(lease):
                self._election.write_answered(write.id, boottime(), lease)
            case Conflicted():
                self._election.write_conflicted(write.id, boottime())
            case Refused(retry_after):
                self._election.write_refused(write.id, boottime(), retry_after=retry_after)
            case Lost(retry_after):
                self._election.write_lost(write.id, boottime(), retry_after=retry_after)
        pump.wake()

    async def _watch(self, watch: WatchLease, pump: Pump) -> None:
        def on_event(lease: Lease, *, is_deleted: bool) -> None:
            if self._election.event_arrived(watch.id, boottime(), lease, is_deleted=is_deleted):
                pump.wake()

        is_orderly = await self._client.watch(watch, on_event)
        self._election.watch_ended(watch.id, boottime(), is_orderly=is_orderly)
        pump.wake()


def why_waiting(election: Election, now: float) -> str:
    """For the Lease of a process of this pod that died; "" where it does not."""
    why_not = election.why_not_resumed(now)
    return f"held by {election.holder}; not resumed: {why_not}" if why_not else ""


class SingleMachine:
    """One candidate for one Lease."""

    has_confirmations = False

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
            config.lease,
            config.timing,
            config.take_missing,
            answers_at=answers_at,
            keeps_history=True,
            moves=MovePolicy(
                can_drain=config.drain_url is not None or bool(config.program),
                priority=config.priority,
                settle=config.priority_settle,
            ),
        )
        self.election = Election(candidate, now=boottime())
        self.client = LeaseClient(server, config)
        self._lease = OwnLease(self.election, self.client)
        self.view = self.election.view
        self.set_intent = self.election.set_intent
        self.advance = self.election.advance
        self.wake_at = self.election.wake_at
        self.perform = self._lease.perform

    def reason(self, now: float) -> str:
        return why_waiting(self.election, now)

    def work(self, now: float) -> tuple[bool, int]:
        return self.election.view(now).is_leader, self.election.terms

    def is_settled(self, now: float) -> bool:
        return False

    def measure(self, now: float) -> Iterable[Metric]:
        return ()

    def tell(self, now: float, until: float) -> None:
        """The Lease itself lasts as long."""

    def has_changed(self, now: float) -> bool:
        return False
