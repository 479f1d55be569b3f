"""Edits of the Lease by others: deleted or blanked under a living leader, or with a dead one."""

from collections.abc import Callable

from tools.bench.elector.poller import Contender, boottime
from tools.bench.elector.scenarios.scenario import Play, Scenario
from tools.bench.elector.side import Setup, Side
from tools.bench.elector.timeline import gap
from tools.bench.pace import sleep
from tools.bench.samples import OURS, REFERENCE, Sample

# Client-go notices at its next retry, and works on for its renew deadline.
OBSERVATION = 12.0


def _edited(edit: Callable[[Side], None]) -> Play:
    def edited(side: Side, leader: Contender) -> Sample:
        identity = leader.identity
        edited_at = boottime()
        edit(side)
        sleep(OBSERVATION)
        own = side.replies(since=edited_at, pods=[leader])
        holder = side.lease.spec().get("holderIdentity")
        return {
            "gap": gap(side.replies(since=edited_at), since=edited_at),
            "same_leader": float(holder == identity),
            "kept": float(holder == identity and all(each.status == 200 for each in own)),
        }

    return edited


def _orphaned(side: Side, leader: Contender) -> Sample:
    killed_at = boottime()
    leader.kill()
    side.lease.delete_lease()
    deleted_at = boottime()
    reply = side.await_200(side.others(leader), since=killed_at)
    return {"takeover": reply.received - deleted_at}


# Without --loop a client-go candidate ends when it has lost; the next run starts it anew.
_SETUPS = (Setup(OURS), Setup(REFERENCE))
EDITS = (
    Scenario("lease-deleted", _edited(lambda side: side.lease.delete_lease()), _SETUPS),
    Scenario("lease-blanked", _edited(lambda side: side.lease.blank()), _SETUPS),
)
ORPHANED = Scenario("lease-deleted-leader-dead", _orphaned, _SETUPS)
