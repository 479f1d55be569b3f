"""Controllers with one fault each, made of the product's own source.

Guarantees: the product's modules stay as they are: a mutant is a copy beside them; a fault that no
longer fits the source fails its test.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

# In the order in which they import each other; all after `node_state`.
MODULES = {
    "votes": "pool_sidecar.core.votes",
    **{
        name: f"pool_sidecar.core.controller.{name}"
        for name in ("witness", "membership", "taints", "conditions", "pool_controller")
    },
}

MUTANTS = {
    "half of those that report": (
        "witness",
        "voters=len(self._ready - {node}),",
        "voters=self._reporting,",
    ),
    "half is enough": ("witness", "self.votes * 2 > self.voters", "self.votes * 2 >= self.voters"),
    "one is enough": ("witness", "self.votes * 2 > self.voters", "self.votes > 0"),
    "members that are not Ready vote": (
        "witness",
        "if not node.is_ready or report is None:",
        "if report is None:",
    ),
    "NeverHeard counts": (
        "votes",
        "return told.verdict is Verdict.DEGRADED and told.seconds >= DEGRADED_FOR",
        "return told.seconds >= DEGRADED_FOR",
    ),
    "silent for a moment": ("votes", "return told.seconds >= SILENT_FOR", "return True"),
    "degraded like silent": ("votes", "DEGRADED_FOR: Final = 300", "DEGRADED_FOR: Final = 40"),
    "no third": ("witness", "self.ready * 3 >= self.size", "True"),
    "fresh by a list": (
        "witness",
        "counts = is_change and not is_listed and now >= self._blind_until",
        "counts = is_change and now >= self._blind_until",
    ),
    "fresh for ever": (
        "witness",
        "now - seen.changed_at <= min(PERIODS * seen.every, MAX_AGE)",
        "seen.changed_at > -math.inf",
    ),
    "as fresh as it says": ("witness", "MAX_AGE: Final = 30.0", "MAX_AGE: Final = 300.0"),
    "votes of before the loss": (
        "pool_controller",
        "has_heard and self._freshness.is_about_loss(member, told.node)",
        "has_heard",
    ),
    "a loss that goes on": ("witness", "known[0] != node.ready_since", "False"),
    "frozen, and believes what it saw": (
        "pool_controller",
        "self._freshness.void(now)",
        "pass",
    ),
    "no limit": ("taints", "if not pending and marked >= limit:", "if not pending and marked < 0:"),
    "no pace": ("taints", "if not memory.may_mark(pool, now):", "if False:"),
    "a pace that starts anew": (
        "taints",
        "if before is not None and node.is_dead and not before.is_dead:",
        "if False:",
    ),
    "dead until True": (
        "taints",
        'stays_dead = node.is_dead and node.ready == "Unknown" and',
        'stays_dead = node.is_dead and node.ready != "True" and',
    ),
    "dead for ever": (
        "taints",
        'stays_dead = node.is_dead and node.ready == "Unknown" and',
        "stays_dead = node.is_dead and",
    ),
    "marks whom its annotation keeps": (
        "taints",
        "judged = [it for it in nodes if not it.keeps_pods]",
        "judged = nodes",
    ),
    "an annotation that comes too late": (
        "taints",
        'node.ready == "Unknown" and not node.keeps_pods',
        'node.ready == "Unknown"',
    ),
    "not confirmed": (
        "pool_controller",
        "return self._witnesses(present, now).opinion(judged.name).is_gone",
        "return True",
    ),
    "taints stay behind": (
        "pool_controller",
        "outside = (without_taints(it) for it in nodes if it.name not in inside)",
        "outside: list[TaintNode] = []",
    ),
    "moved without a new member": (
        "membership",
        "if member.owner != node.uid or member.pool not in (NO_POOL, pool, pool_of(node)):",
        "if member.owner != node.uid:",
    ),
    "cut for ever": ("taints", 'node.cloud_link in ("True", "")', "False"),
    "judged is never taken back": (
        "pool_controller",
        "if is_news or member.is_dead != node.is_dead:",
        "if node.is_dead and not member.is_dead:",
    ),
}
# What a mutant needs beside its fault.
BESIDE = {
    "half of those that report": (
        "self._size = len(members)",
        "self._size = len(members)\n"
        "        self._reporting = sum(n.is_ready and is_fresh(m) for n, m in members)",
    )
}


def make(name: str) -> Any:
    """The class of a PoolController with this fault."""
    module, old, new = MUTANTS[name]
    beside = BESIDE.get(name)
    names = list(MODULES.values())
    before = {it: sys.modules[it] for it in names if it in sys.modules}
    try:
        for each in names:
            spec = find_spec(each)
            assert spec is not None
            assert spec.origin is not None
            source = Path(spec.origin).read_text()
            if each == MODULES[module]:
                source = _replaced(source, old, new)
                source = _replaced(source, *beside) if beside else source
            copy = ModuleType(each)
            sys.modules[each] = copy
            exec(compile(source, spec.origin, "exec"), copy.__dict__)
        return sys.modules[names[-1]].__dict__["PoolController"]
    finally:
        sys.modules.update(before)


def _replaced(source: str, old: str, new: str) -> str:
    assert source.count(old) == 1, f"{old!r} is there {source.count(old)} times"
    return source.replace(old, new)
