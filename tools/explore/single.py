"""Explorations of the single election: members, and candidates of client-go beside them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from elector_sidecar.core.election import Election
from elector_sidecar.core.lease import ANSWERS_AT_ANNOTATION, RESUMED_ANNOTATION, Lease
from elector_sidecar.core.moves.moves import MovePolicy
from elector_sidecar.core.timing import Timing
from tools.explore.actors.actor import Pace
from tools.explore.actors.clientgo import ClientGo
from tools.explore.actors.member import NAME, Make, Member
from tools.explore.moves import MovingState
from tools.explore.search import Config
from tools.explore.state import State
from tools.explore.store import NAMESPACE, Store

TIMING = Timing(lease_duration=4, renew_interval=1, request_timeout=1.5)
# A priority moves within the horizon; a minute is only longer.
POLICY = MovePolicy(can_drain=True, settle=2.0, interval=5.0, again=8.0)
PACE = Pace(step=1.0)


def resume_age(seconds: float, step: int, lease: Lease) -> tuple[float, bool]:
    """What a process that starts judges by; `seconds`: of a step."""
    text = lease.annotation(ANSWERS_AT_ANNOTATION)
    sent = float(text.split(" ")[3]) if text else -math.inf
    resumed = lease.annotation(RESUMED_ANNOTATION) is not None
    return (min(step * seconds - sent, TIMING.lease_duration), resumed)


def single(
    *,
    rates: Sequence[float] = (1.0, 1.0),
    client_go: str | None = None,
    client_rate: float = 1.0,
    faults: int = 1,
    restores: int = 1,
    pace: Pace = PACE,
    make: Make = Election,
    leases: float = 4.0,
    is_settled: bool = False,
    resumes: bool = False,
    targets: tuple[str, ...] = (),
    priorities: Sequence[int] = (),
) -> Config:
    """`rates`: of the members' clocks; `client_go`: "0.26" or "0.37"; `leases`: the horizon in
    lease durations; `is_settled`: begins when somebody leads for so long that how it came about is
    forgotten, not with an empty Lease; `resumes`: a process that starts may go on for one of its
    pod that died; `targets`: an administrator asks for switchovers to them, and for holds;
    `priorities`: of the members."""

    def begin() -> State:
        store = Store()
        store.post({"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": {}})
        store.log = ()
        members = [
            Member(f"pod-{n}", rate, TIMING, make, resumes=resumes, moves=policies[n])
            for n, rate in enumerate(rates)
        ]
        actors: list[Member | ClientGo] = list(members)
        if client_go is not None:
            is_old = client_go == "0.26"
            actors.append(
                ClientGo("peer", client_rate, lease=NAME, duration=int(duration), is_old=is_old)
            )
        extras = partial(resume_age, pace.step) if resumes else None
        if moves:
            state: State = MovingState(
                store, actors, restores=restores, targets=targets, extras=extras
            )
        else:
            state = State(store, actors, restores=restores, extras=extras)
        if is_settled:
            state.settle(pace, steps=round(3 * duration / pace.step))
        return state

    moves = bool(targets or priorities)
    policies: list[MovePolicy | None] = [None for _ in rates]
    if moves:
        known = priorities or [0 for _ in rates]
        policies = [replace(POLICY, priority=it) for it in known]
    duration = TIMING.lease_duration
    wait = duration * (1.2 if client_go else 1.0) / min(rates) + 2.0
    title = f"{len(rates)} members" + (f" and client-go {client_go}" if client_go else "")
    return Config(
        name=f"{title}, rates {', '.join(f'{rate:g}' for rate in (*rates, client_rate))}",
        begin=begin,
        pace=replace(pace),
        faults=faults,
        horizon=round(leases * duration / pace.step),
        bound=int(wait / pace.step) + 1,
        old=2.5 * duration + 1.0,
    )
