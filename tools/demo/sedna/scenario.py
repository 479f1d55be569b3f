"""What the demo of GM and LC shows in each mode: how GMs are started, what happens, what is drawn.

Owns the list of modes. Knows no screen.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from rich.console import RenderableType

from tools.demo.sedna import SHARDS, shard_steps, small_jobs, steps
from tools.demo.sedna.ring import Ring
from tools.demo.sedna.shard_state import ShardState
from tools.demo.sedna.shard_tables import shard_picture
from tools.demo.sedna.small_jobs import SmallJobs
from tools.demo.sedna.state import SednaState
from tools.demo.sedna.tables import picture
from tools.harness.pods import gm
from tools.harness.pods.kubelet.pod_plan import PodPlan
from tools.harness.pods.system import ACTIVE_ACTIVE, MODES

Json = dict[str, Any]
S = TypeVar("S")


@dataclass(frozen=True)
class Story:
    """Of one run. `seen`: what else is told at the end, in one line; `broken`: what must not be."""

    steps: Sequence[tuple[str, Callable[[], None]]]
    draw: Callable[[], Sequence[RenderableType]]
    seen: Callable[[], str] | None = None
    broken: Callable[[], Sequence[str]] = tuple


@dataclass(frozen=True)
class Scenario:
    """`mode`: of GM and LC; `spares`: GMs that are added later; `steps`: how many there are;
    `rounds`: of the federated training, enough for what happens meanwhile on a busy machine; what
    `begin` starts ends with the stack."""

    mode: str
    steps: int
    begin: Callable[[SednaState, ExitStack], Story]
    rounds: int
    elector_flags: Sequence[str] = ()
    gm_flags: Sequence[str] = ()
    spares: int = 0
    plan_of: Callable[[Json], PodPlan] = lambda pod: PodPlan(is_process=True)


def _leader(state: SednaState, _: ExitStack) -> Story:
    return Story(_bound(steps.SCRIPT, state), partial(picture, state))


def _shards(sedna: SednaState, stack: ExitStack) -> Story:
    system = sedna.system
    ring = stack.enter_context(Ring(system.gms, shards=gm.SHARDS))
    spares = [pod for pod in system.gms if pod.name in sedna.absent]
    state = ShardState(sedna, ring, SmallJobs(system), spares)
    return Story(
        _bound(shard_steps.SCRIPT, state),
        partial(shard_picture, state),
        lambda: f"{ring.answers} answers of who owns what, {len(ring.broken())} shards of two",
        ring.broken,
    )


def _bound(
    script: Sequence[Callable[[S], None]], state: S
) -> Sequence[tuple[str, Callable[[], None]]]:
    return [(step.__name__.replace("_", " "), partial(step, state)) for step in script]


SCENARIOS: Mapping[str, Scenario] = {
    mode: Scenario(mode=mode, steps=len(steps.SCRIPT), begin=_leader, rounds=80) for mode in MODES
} | {
    SHARDS: Scenario(
        mode=ACTIVE_ACTIVE,
        steps=len(shard_steps.SCRIPT),
        begin=_shards,
        rounds=60,
        elector_flags=gm.SHARDING,
        gm_flags=("--leadership=shards",),
        spares=1,
        plan_of=small_jobs.plan_of,
    )
}
