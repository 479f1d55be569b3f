"""How long nobody leads after the leader is killed, terminated or cut off."""

from tools.bench.elector.poller import Contender, boottime
from tools.bench.elector.scenarios.scenario import Play, Scenario
from tools.bench.elector.side import LEASE_DURATION, Setup, Side
from tools.bench.pace import sleep, wait_for
from tools.bench.samples import OURS, REFERENCE, Sample
from tools.harness.controlplane.fault_proxy.fault import Fault, Mode

# How long a leader that was cut off is looked at beside its successor: client-go's renew
# deadline, a retry period and a request time-out fit in.
AFTERMATH = 6.0
EXIT_TIMEOUT = 30.0

OURS_GATED = Setup(OURS, has_main=True)


def kill_whole(side: Side, leader: Contender) -> Sample:
    killed_at = boottime()
    side.kill(leader)
    return _taken(side, leader, since=killed_at)


def kill_main(side: Side, leader: Contender) -> Sample:
    killed_at = boottime()
    side.main(leader).kill()
    return _taken(side, leader, since=killed_at)


def terminate(side: Side, leader: Contender) -> Sample:
    terminated_at = boottime()
    leader.terminate()
    sample = _taken(side, leader, since=terminated_at)
    wait_for(lambda: not leader.is_running, timeout=EXIT_TIMEOUT, what=f"{leader.name} ends")
    return sample


def _cut(mode: Mode) -> Play:
    def cut(side: Side, leader: Contender) -> Sample:
        cut_at = boottime()
        side.link(leader).apply(Fault(mode=mode))
        sample = _taken(side, leader, since=cut_at)
        sleep(AFTERMATH)
        return sample

    return cut


def _taken(side: Side, leader: Contender, *, since: float) -> Sample:
    identity = leader.identity
    reply = side.await_200(side.others(leader), since=since)
    renewed_at = side.last_renewal(identity, before=since)
    return {
        "takeover": reply.received - since,
        "from_renewal": reply.received - renewed_at,
        "lease_left": renewed_at + LEASE_DURATION - since,
    }


def _both(*, ours: tuple[str, ...] = (), theirs: tuple[str, ...] = ()) -> tuple[Setup, ...]:
    return Setup(OURS, ours, is_proxied=True), Setup(REFERENCE, theirs, is_proxied=True)


EXPIRY = (
    Scenario("kill", kill_whole, (OURS_GATED, Setup(REFERENCE))),
    Scenario("term-no-release", terminate, (Setup(REFERENCE),)),
    Scenario("black-hole", _cut(Mode.BLACK_HOLE), _both()),
    Scenario("refused", _cut(Mode.REFUSE), _both()),
)
TERM = (
    Scenario(
        "term-release",
        terminate,
        (Setup(OURS, ("--release-on-term",)), Setup(REFERENCE, ("--release-on-cancel",))),
    ),
)
MAIN = (Scenario("kill-main", kill_main, (OURS_GATED,)),)
