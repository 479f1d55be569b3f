"""Leaders that were frozen for longer than their lease, or whose renewal was answered late.

Requests go on arriving while a process is frozen and wait in its socket; each 200 after waking is
counted, whenever it was asked for. A Lease that the woken ex-leader empties was another's.
"""

from contextlib import ExitStack

from tools.bench.elector.poller import Contender, boottime
from tools.bench.elector.scenarios.scenario import Play, Scenario
from tools.bench.elector.side import Setup, Side, holder
from tools.bench.pace import sleep, wait_for
from tools.bench.samples import OURS, REFERENCE, Sample
from tools.harness.controlplane.fault_proxy.fault import Delay, Fault, Mode

# The successor leads for so long before the old leader wakes up.
HEAD_START = 2.0
# Client-go, cut off: its renew deadline of 10 s and a request time-out of 5 s, from waking on.
CUT_OBSERVATION = 17.0
OBSERVATION = 4.0
RENEWAL_TIMEOUT = 15.0
# An answer as late as each just accepts. Client-go waits 5 s (half its renew deadline) on an open
# connection; ours waits 3 s, of which a new connection's handshake has its own late answer.
LATE_ANSWER = {OURS: 1.2, REFERENCE: 4.8}


def _frozen(*, is_cut: bool) -> Play:
    def frozen(side: Side, leader: Contender) -> Sample:
        _freeze_until_followed(side, leader)
        if is_cut:
            side.link(leader).apply(Fault(mode=Mode.BLACK_HOLE))
        return _wake(side, leader, observation=CUT_OBSERVATION if is_cut else OBSERVATION)

    return frozen


def terminated_while_frozen(side: Side, leader: Contender) -> Sample:
    identity = leader.identity
    _freeze_until_followed(side, leader)
    # Queued: delivered when it runs again, before anything else of it.
    leader.terminate()
    woken_at = boottime()
    sample = _wake(side, leader, observation=OBSERVATION)
    blanked = [write for write in side.writes(identity, since=woken_at) if holder(write) == ""]
    return {**sample, "foreign_blanked": float(bool(blanked))}


def late_answer(side: Side, leader: Contender) -> Sample:
    """The renewal is applied, its answer comes late, and then the leader is cut off."""
    late, identity = LATE_ANSWER[side.kind], leader.identity
    delayed_at = boottime()
    side.link(leader).apply(Fault(response_delay=Delay(late)))
    wait_for(
        lambda: bool(side.writes(identity, since=delayed_at)),
        timeout=RENEWAL_TIMEOUT,
        what=f"{side.kind}: a renewal under delay",
        interval=0.02,
    )
    # The answer is on its way: that of the handshake was late before the write was sent.
    sleep(late + 0.1)
    side.link(leader).apply(Fault(mode=Mode.BLACK_HOLE))
    cut_at = boottime()
    reply = side.await_200(side.others(leader), since=cut_at)
    sleep(CUT_OBSERVATION - OBSERVATION)
    return {"takeover": reply.received - cut_at}


def _freeze_until_followed(side: Side, leader: Contender) -> None:
    """It stays frozen, unless nobody follows."""
    with ExitStack() as stack:
        leader.freeze()
        stack.callback(leader.thaw)
        side.await_200(side.others(leader), since=boottime())
        sleep(HEAD_START)
        stack.pop_all()


def _wake(side: Side, leader: Contender, *, observation: float) -> Sample:
    woken_at = boottime()
    leader.thaw()
    sleep(observation)
    stale = [
        reply
        for reply in side.replies(since=0.0, pods=[leader])
        if reply.status == 200 and reply.received >= woken_at
    ]
    waited = [reply for reply in stale if reply.sent < woken_at]
    last = max((reply.received for reply in stale), default=woken_at)
    return {
        "stale_200s": float(len(stale)),
        "stale_waited": float(len(waited)),
        "stale_seconds": last - woken_at,
    }


_RELEASE = (
    Setup(OURS, ("--release-on-term",)),
    Setup(REFERENCE, ("--release-on-cancel", "--loop")),
)
_CUT = (Setup(OURS, is_proxied=True), Setup(REFERENCE, ("--loop",), is_proxied=True))
FROZEN = (
    Scenario("frozen", _frozen(is_cut=False), (Setup(OURS), Setup(REFERENCE, ("--loop",)))),
    Scenario("frozen-cut", _frozen(is_cut=True), _CUT),
    Scenario("frozen-term", terminated_while_frozen, _RELEASE),
    Scenario("late-answer", late_answer, _CUT),
)
