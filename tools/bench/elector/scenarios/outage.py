"""Who leads when the API server refuses everybody for a while, and how soon after healing."""

from tools.bench.elector.poller import Contender, boottime
from tools.bench.elector.scenarios.scenario import Play, Scenario
from tools.bench.elector.side import Setup, Side, apply_to_all
from tools.bench.pace import sleep
from tools.bench.samples import OURS, REFERENCE, Sample
from tools.harness.controlplane.fault_proxy.fault import Fault, Mode

# After healing: standbys notice, a change of leader would show.
AFTERMATH = 5.0


def _gone(seconds: float) -> Play:
    def gone(side: Side, leader: Contender) -> Sample:
        identity = leader.identity
        gone_at = boottime()
        apply_to_all(side, Fault(mode=Mode.REFUSE))
        sleep(seconds)
        apply_to_all(side, Fault())
        healed_at = boottime()
        reply = side.await_200(side.pods, since=healed_at)
        sleep(AFTERMATH)
        own = side.replies(since=gone_at, pods=[leader])
        holder = side.lease.spec().get("holderIdentity")
        return {
            "after_healing": reply.received - healed_at,
            "same_leader": float(holder == identity),
            # Without a single other answer in between.
            "kept": float(holder == identity and all(each.status == 200 for each in own)),
        }

    return gone


# Contends again after a loss, as a pod that kubelet restarts at once.
_SETUPS = (Setup(OURS, is_proxied=True), Setup(REFERENCE, ("--loop",), is_proxied=True))
OUTAGES = (
    Scenario("api-gone-8s", _gone(8.0), _SETUPS),
    Scenario("api-gone-12s", _gone(12.0), _SETUPS),
)
