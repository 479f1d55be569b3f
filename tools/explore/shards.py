"""Explorations of the election for shards: members, and candidates of client-go for the table."""

from collections.abc import Callable, Sequence
from functools import partial

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.timing import Timing
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL
from tools.explore.actors.actor import Broken, Pace
from tools.explore.actors.clientgo import ClientGo
from tools.explore.actors.shard_member import TABLE, Make, ShardMember, said
from tools.explore.canonical import Canonical
from tools.explore.choices import Script
from tools.explore.search import Config
from tools.explore.single import resume_age
from tools.explore.state import State
from tools.explore.store import NAMESPACE, Store

TIMING = Timing(lease_duration=4, renew_interval=1, request_timeout=1.5)
PACE = Pace(
    step=1.0,
    crash=(1, 5),
    freeze=(2, 5),
    cut=(2, 5),
    late_request=(1, 4),
    late_answer=(1,),
    late_events=(2, 5),
)
# Fields that matter here, beside those that matter for a single election.
KEPT = ("terms", "started_at")


class ShardState(State):
    __slots__ = ()
    wanted = "not every shard is owned"

    def judge(self, time: float) -> None:
        """S1: one main works on a shard at most; none while a single leader works."""
        working: dict[int, str] = {}
        for actor in self.actors:
            if actor.kind == "shards":
                for shard in actor.works_on(time):
                    if shard in working:
                        who = f"{working[shard]} and {actor.identity}"
                        raise Broken(f"S1: {who} work on shard {shard} at once")
                    working[shard] = actor.identity
        for actor in self.actors:
            if actor.kind != "shards" and actor.leads(time) and working:
                raise Broken(f"S1: {actor.identity} leads beside {sorted(set(working.values()))}")

    def is_done(self, pace: Pace) -> bool:
        time = self.step * pace.step
        if any(actor.kind != "shards" and actor.leads(time) for actor in self.actors):
            return True
        members = [actor for actor in self.actors if actor.kind == "shards"]
        owned = sum(len(actor.owned(time)) for actor in members)
        return bool(owned == members[0].shards)

    def canonical(self, old: float) -> Canonical:
        canonical = Canonical(old=old, kept=KEPT)
        canonical.lease_extras = _extras
        if self.extras is not None:
            canonical.lease_extras = partial(_resumable, partial(self.extras, self.step))
        return canonical


_EXTRAS: dict[int, tuple[Lease, tuple[object, ...]]] = {}
MOST_EXTRAS = 200_000


def _resumable(age: Callable[[Lease], object], lease: Lease) -> tuple[object, ...]:
    return (_extras(lease), age(lease))


def _extras(lease: Lease) -> tuple[object, ...]:
    known = _EXTRAS.get(id(lease))
    if known is None or known[0] is not lease:
        if len(_EXTRAS) > MOST_EXTRAS:
            _EXTRAS.clear()
        known = _EXTRAS[id(lease)] = (lease, said(lease.raw["metadata"]))
    return known[1]


def sharded(
    *,
    rates: Sequence[float] = (1.0, 1.0, 1.0),
    shards: int = 3,
    settle: float = 1.0,
    client_go: str | None = None,
    faults: int = 1,
    restores: int = 1,
    edits: int = 0,
    pace: Pace = PACE,
    make: Make = ShardElection,
    leases: float = 4.0,
    bound: int | None = None,
    is_settled: bool = False,
    after: str = "",
    timing: Timing = TIMING,
    resumes: bool = False,
) -> Config:
    """As `single`; the table's Lease exists and is empty, as the manifests ship it. `is_settled`:
    begins when every shard is owned for so long that how it came about is forgotten; `after`: and
    for as long once more after this fault."""

    def begin() -> State:
        store = Store()
        labels = {ELECTION_LABEL: TABLE}
        metadata = {"namespace": NAMESPACE, "name": TABLE, "labels": labels}
        store.post({"metadata": metadata, "spec": {}})
        store.log = ()
        actors: list[ShardMember | ClientGo] = [
            ShardMember(
                *(f"pod-{n}", rate, timing),
                shards=shards,
                settle=settle,
                make=make,
                resumes=resumes,
            )
            for n, rate in enumerate(rates)
        ]
        if client_go is not None:
            duration = int(timing.lease_duration)
            is_old = client_go == "0.26"
            actors.append(ClientGo("peer", 1.0, lease=TABLE, duration=duration, is_old=is_old))
        extras = partial(resume_age, pace.step) if resumes else None
        state = ShardState(store, actors, restores=restores, extras=extras)
        state.edits = edits
        steps = round(3 * timing.lease_duration / pace.step)
        if is_settled:
            state.settle(pace, steps=steps)
        if after:
            state.advance(Script([after]), pace)
            state.settle(pace, steps=steps)
        return state

    duration = timing.lease_duration
    return Config(
        name="shards",
        begin=begin,
        pace=pace,
        faults=faults,
        horizon=round(leases * duration / pace.step),
        bound=bound or int((1.2 * duration / min(rates) + 5.0) / pace.step) + 1,
        old=2.5 * duration + 1.0,
    )
