"""The outside observer: sees every process, every write and true time, and asserts the promises.

Each check is named after the promise of the contract that it proves. Leadership is a function of
a candidate's clock between two steps of it, so comparing all at each step of any misses nothing.
"""

import math
from typing import Protocol

from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import Lease, Spec, wall_seconds
from elector_sidecar.core.lease_writes import Purpose, WriteLease
from tests.unit.elector.core.apiserver import Change
from tests.unit.elector.core.member import Process
from tests.unit.elector.core.world import World

TOLERANCE = 1e-5
# Stated anew, so that a wrong constant in the core is seen: contract, section 1, P2, and section 4.
VALID_SHARE, VALID_MARGIN = 0.95, 0.25
FOREIGN_FACTOR = 1.2


class Peer(Protocol):
    """A candidate that is not ours."""

    identity: str

    @property
    def is_leading(self) -> bool: ...


class Observer:
    def __init__(self, world: World, *, peers: list[Peer]) -> None:
        self._world = world
        self._peers = peers
        self._processes: dict[str, Process] = {}
        self._proofs: dict[str, float] = {}
        self._tokens: dict[str, int] = {}
        self._greatest_token = 0
        self._valid_until: dict[str, float] = {}
        # Since when each spec has stood or could be seen to stand: an edit and its opposite between
        # two reads of a candidate are no change to it.
        self._spec_since: dict[tuple[str, Spec], float] = {}
        self._release_asked_at: dict[str, float] = {}
        # Where other people break client-go's rules, only our own exclude each other.
        self.peers_are_lawful = True
        self.led_at = -math.inf
        self.takeovers = 0
        world.server.on_change.append(self.changed)

    def attend(self, process: Process) -> None:
        self._processes[process.identity] = process
        process.on_step.append(self.stepped)

    # ── at each step of a candidate ──

    def stepped(self, process: Process) -> None:
        self.released_is_seen(process)
        view = process.view()
        if not view.is_leader:
            return
        # P4: at once on another holder.
        assert view.holder in ("", process.identity), f"leads and knows of {view.holder!r}"
        assert view.valid_until is not None
        assert view.fencing_token is not None
        self.exclusive(process)
        self.valid_only_after_an_applied_write(process, view.valid_until)
        self.tokens_grow(process, view.fencing_token)
        self._valid_until[process.identity] = view.valid_until
        self.led_at = self._world.time

    def exclusive(self, process: Process) -> None:
        """P1, for frozen ones too: they may wake at this very moment."""
        for other in self._processes.values():
            if other is not process and not other.is_dead:
                assert not other.view().is_leader, self._two(process.identity, other.identity)
        if self.peers_are_lawful:
            for peer in self._peers:
                assert not peer.is_leading, self._two(process.identity, peer.identity)

    def peer_leads(self, peer: Peer) -> None:
        """P10: nor while a client-go candidate that keeps to its rules leads."""
        if self.peers_are_lawful:
            for process in self._processes.values():
                leads = not process.is_dead and process.view().is_leader
                assert not leads, self._two(process.identity, peer.identity)

    def valid_only_after_an_applied_write(self, process: Process, valid_until: float) -> None:
        """P2 and P3: by its own clock, from the sending of a write that changed the record."""
        timing = process.settings.timing
        validity = timing.lease_duration * VALID_SHARE - VALID_MARGIN
        limit = self._proofs.get(process.identity, -math.inf) + validity
        assert valid_until <= limit + TOLERANCE, f"{process.identity} leads without a proof"

    def released_is_seen(self, process: Process) -> None:
        """P6: released is said only after the record stood without it since it was asked."""
        election = process.election
        if election.intent is not Intent.RELEASE:
            self._release_asked_at.pop(process.identity, None)
            return
        asked_at = self._release_asked_at.setdefault(process.identity, self._world.time)
        if election.is_released:
            changes = self._world.server.changes
            freed = any(
                change.at >= asked_at and not _names(change.lease, process.identity)
                for change in changes
            )
            assert freed or not _names(self._world.server.lease, process.identity)

    def tokens_grow(self, process: Process, token: int) -> None:
        has_lapsed = process.clock.now() >= self._valid_until.get(process.identity, -math.inf)
        if self._tokens.get(process.identity) == token and not has_lapsed:
            return
        assert token > self._greatest_token, f"{token} after {self._greatest_token}"
        self._greatest_token = token
        self._tokens[process.identity] = token

    # ── at each change of the object ──

    def changed(self, change: Change) -> None:
        process = self._processes.get(change.writer)
        if process is not None and change.lease is not None:
            write = process.performing
            assert write is not None
            self.judged_before_written(process, change, write)
            if write.purpose is Purpose.ACQUIRE_OR_RENEW:
                self.renew_time_grows(process, change)
                sent_at = self._proofs.get(process.identity, -math.inf)
                self._proofs[process.identity] = max(sent_at, write.sent_at)
        elif process is None and _blanks(change):
            self.peers_are_lawful = False
        if change.lease is not None:
            key = (change.lease.uid, change.lease.spec)
            self._spec_since.setdefault(key, change.at)

    def judged_before_written(self, process: Process, change: Change, write: WriteLease) -> None:
        """P4, section 4: no foreign holder is blanked, or overwritten before its time."""
        before = change.before
        assert write.creates == (before is None)
        if before is None:
            return
        metadata = write.body["metadata"]
        assert metadata["uid"] == before.uid
        assert metadata["resourceVersion"] == str(before.resource_version)
        holder = before.spec.holder_identity
        if write.purpose is Purpose.RELEASE:
            assert holder == process.identity, f"{process.identity} released {holder!r}"
            return
        if process.identity != holder:
            self.takeovers += 1
        if holder in ("", process.identity):
            return
        duration = before.spec.lease_duration or process.settings.timing.lease_duration
        wait = duration if before.is_marked else duration * FOREIGN_FACTOR
        true_wait = self._world.time - self._spec_since[before.uid, before.spec]
        waited = true_wait * process.clock.rate - (process.clock.now() - write.sent_at)
        assert waited >= wait - TOLERANCE, f"{holder!r} was overwritten after {waited} s"

    def renew_time_grows(self, process: Process, change: Change) -> None:
        """P3, H9: client-go followers see whole seconds only."""
        before, after = change.before, change.lease
        assert after is not None
        assert after.marked_holder == process.identity
        if before is None or before.spec.holder_identity != process.identity:
            return
        old, new = wall_seconds(before.spec.renew_time), wall_seconds(after.spec.renew_time)
        assert old is None or (new is not None and int(new) > int(old))

    def _two(self, one: str, other: str) -> str:
        return f"{one} and {other} both lead at {self._world.time}"


def _blanks(change: Change) -> bool:
    """H4: an elector that is not ours releases what it does not hold."""
    return (
        change.before is not None
        and change.lease is not None
        and change.lease.spec.holder_identity == ""
        and change.before.spec.holder_identity not in ("", change.writer)
    )


def _names(lease: Lease | None, identity: str) -> bool:
    return lease is not None and lease.spec.holder_identity == identity
