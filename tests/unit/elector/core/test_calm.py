"""Without faults, or with one: how quiet an election is and how fast it hands over (P7, P8)."""

import pytest

from elector_sidecar.core.election import Command
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease_watch import ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Purpose, WriteLease
from elector_sidecar.core.timing import TAKEOVER_JITTER
from tests.unit.elector.core.member import Process
from tests.unit.elector.core.scenario import RATES, TIMINGS, Member, Run, Scenario

# An event, a write and its answer, each at most 20 ms one way.
ROUND_TRIPS = 0.1


def calm(count: int = 3, *, rate: float = 1.0, begins_empty: bool = True) -> Run:
    members = [Member(rate=rate, timing=TIMINGS[0])] * count
    run = Run(Scenario(members=members, faults=[], begins_empty=begins_empty))
    run.world.run(until=20.0)
    return run


def leader(run: Run) -> Process:
    [one] = [p for p in run.processes if not p.is_dead and p.view().is_leader]
    return one


def sent(process: Process, since: int) -> list[Command]:
    return process.sent[since:]


@pytest.mark.parametrize("rate", RATES)
def test_p8_without_faults_standbys_are_silent_and_the_leader_writes_once_per_interval(
    rate: float,
) -> None:
    run = calm(rate=rate)
    before = {process.identity: len(process.sent) for process in run.processes}
    run.world.run(until=120.0)
    for process in run.processes:
        commands = sent(process, before[process.identity])
        if process is leader(run):
            writes = 100 * rate / process.settings.timing.renew_interval
            assert len(commands) == pytest.approx(writes, abs=1.5)
            assert all(isinstance(command, WriteLease) for command in commands)
        else:
            assert commands == []


def test_p8_at_the_start_a_standby_reads_once_watches_once_and_tries_once() -> None:
    run = calm(3)
    for process in run.processes:
        if process is not leader(run):
            kinds = [type(command) for command in process.sent]
            assert kinds.count(ReadLease) <= 2, "the winner's event may come after the conflict"
            assert kinds.count(WatchLease) == 1
            assert kinds.count(WriteLease) <= 1


@pytest.mark.parametrize("count", [2, 10, 50])
def test_p7_a_release_hands_over_within_round_trips(count: int) -> None:
    run = calm(count)
    old = leader(run)
    asked_at = run.world.time
    old.set_intent(Intent.RELEASE)
    # A read, the release, its event, a takeover.
    run.world.run(until=asked_at + 2 * ROUND_TRIPS)
    assert old.election.is_released
    assert leader(run) is not old


@pytest.mark.parametrize("rate", RATES)
def test_p7_after_a_crash_the_lease_is_taken_when_it_expires(rate: float) -> None:
    run = calm(rate=rate)
    old = leader(run)
    old.kill()
    renewed_at = run.world.server.changes[-1].at
    expires_at = renewed_at + old.settings.timing.lease_duration / rate
    run.world.run(until=expires_at - 0.001)
    assert not any(p.view().is_leader for p in run.processes if p is not old)
    run.world.run(until=expires_at + TAKEOVER_JITTER / rate + ROUND_TRIPS)
    assert leader(run) is not old


def test_a_deleted_lease_is_written_back_by_its_leader_in_the_same_term() -> None:
    run = calm()
    old = leader(run)
    token = old.view().fencing_token
    run.world.server.delete(run.world.time)
    run.world.run(until=run.world.time + ROUND_TRIPS)
    assert leader(run) is old
    assert old.view().fencing_token == token
    lease = run.world.server.lease
    assert lease is not None
    assert lease.spec.holder_identity == old.identity
    run.world.run(until=run.world.time + 30.0)
    assert leader(run) is old


def test_a_missing_lease_has_a_leader_one_duration_after_it_was_found_missing() -> None:
    run = calm(begins_empty=False)
    reservations = [
        command
        for process in run.processes
        for command in process.sent
        if isinstance(command, WriteLease) and command.purpose is Purpose.CREATE_VACANT
    ]
    assert reservations
    [first] = [c for c in run.world.server.changes if c.before is None]
    [taken, *_] = [c for c in run.world.server.changes if c.lease and c.lease.is_marked]
    wait = taken.at - first.at
    assert 6.0 <= wait <= 6.0 + TAKEOVER_JITTER + ROUND_TRIPS
