"""How long no pod leads when the lead is moved on purpose; a main confirms at once.

client-go has no such thing.
"""

import random
import time
import uuid

from elector_sidecar.core.handover import SUCCESSION
from elector_sidecar.core.moves.annotations import (
    HOLD_ANNOTATION,
    SWITCHOVER_ANNOTATION,
    Hold,
    Switchover,
)
from tools.bench.elector.poller import Contender, boottime
from tools.bench.elector.scenarios.scenario import Scenario
from tools.bench.elector.side import Setup, Side
from tools.bench.elector.timeline import gap
from tools.bench.pace import sleep
from tools.bench.samples import OURS, Sample

# Seconds for which a switchover and a hold are asked for.
ASKED_FOR = 60.0
# Seconds of a hold before it is taken off; a lease of a dead leader would have to be longer.
HELD = 5.0
# Seconds; the leader has led for longer.
BEFORE = 1.0
# No pod is called so.
GONE = "pod-9"


def _annotate(side: Side, name: str, text: str | None) -> float:
    """When it was written."""
    at = boottime()
    side.lease.edit(metadata={"annotations": {name: text}})
    return at


def _switched(side: Side, leader: Contender) -> Sample:
    to = random.choice(side.others(leader))
    asked_at = _ask(side, to.name)
    sleep(HELD)
    return {
        "gap": _gap(side, asked_at),
        "is_where_asked": float(side.leaders() == [to]),
    }


def _switched_to_none(side: Side, leader: Contender) -> Sample:
    asked_at = _ask(side, GONE)
    sleep(SUCCESSION + HELD)
    return {"gap": _gap(side, asked_at)}


def _gap(side: Side, asked_at: float) -> float:
    """With the last 200s before it: a leader may give up before it is polled again."""
    since = asked_at - BEFORE
    return gap(side.replies(since=since), since=since)


def _ask(side: Side, to: str) -> float:
    """When it was asked for."""
    asked = Switchover(to, str(uuid.uuid4()), time.time() + ASKED_FOR)
    return _annotate(side, SWITCHOVER_ANNOTATION, asked.text())


def _held(side: Side, leader: Contender) -> Sample:
    hold = Hold(str(uuid.uuid4()), time.time() + ASKED_FOR)
    asked_at = _annotate(side, HOLD_ANNOTATION, hold.text())
    sleep(HELD)
    led = [it.sent for it in side.replies(since=asked_at) if it.status == 200]
    resumed_at = _annotate(side, HOLD_ANNOTATION, None)
    reply = side.await_200(side.pods, since=resumed_at)
    return {
        "until_free": max(led, default=asked_at) - asked_at,
        "until_led": reply.received - resumed_at,
    }


_SETUPS = (Setup(OURS, has_main=True, has_drain=True),)
MOVES = (
    Scenario("switchover", _switched, _SETUPS),
    Scenario("switchover-to-none", _switched_to_none, _SETUPS),
    Scenario("hold", _held, _SETUPS),
)
