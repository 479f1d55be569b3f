"""What the cloud showed of nodes and pods, as an observer with a watch of its own saw it. Pure.

Guarantee: every state that was seen is kept, in the order in which it was seen. Seconds are of the
epoch, and come in.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pool_sidecar.core.controller.node_state import DEAD
from tools.nemesis.pool.objects import condition

Json = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """A state of a Node that began `at`."""

    at: float
    ready: str
    is_dead: bool


@dataclass(frozen=True)
class Pod:
    """`running_at`: when it was seen to run; `deleting_at`: when it was to go, for whatever reason;
    inf for not yet."""

    name: str
    app: str
    node: str
    running_at: float = math.inf
    deleting_at: float = math.inf

    def runs(self, at: float) -> bool:
        return self.running_at <= at < self.deleting_at


@dataclass
class History:
    """`nodes`: the changes of each; `pods` by uid."""

    nodes: dict[str, list[Seen]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def node(self, found: Json, at: float) -> None:
        """A Node was seen."""
        taints = {it["key"] for it in found.get("spec", {}).get("taints", ())}
        seen = Seen(at, condition(found, "Ready"), DEAD in taints)
        states = self.nodes.setdefault(found["metadata"]["name"], [])
        if not states or (states[-1].ready, states[-1].is_dead) != (seen.ready, seen.is_dead):
            states.append(seen)

    def pod(self, found: Json, at: float, *, is_gone: bool = False) -> None:
        """A pod was seen; `is_gone`: for the last time."""
        metadata = found["metadata"]
        before = self.pods.get(metadata["uid"]) or Pod(
            metadata["name"], metadata.get("labels", {}).get("app", ""), ""
        )
        after = replace(before, node=found["spec"].get("nodeName", before.node))
        if condition(found, "Ready") == "True":
            after = replace(after, running_at=min(after.running_at, at))
        if is_gone or "deletionTimestamp" in metadata:
            after = replace(after, deleting_at=min(after.deleting_at, at))
        self.pods[metadata["uid"]] = after

    def at(self, name: str, at: float) -> Seen:
        """The state of a Node; an empty one before it was seen."""
        found = [it for it in self.nodes.get(name, ()) if it.at <= at]
        return found[-1] if found else Seen(-math.inf, "", False)

    def periods(self, name: str) -> Sequence[tuple[Seen, float]]:
        """All states of a Node, each with its end."""
        states = self.nodes.get(name, [])
        ends = [*(it.at for it in states[1:]), math.inf]
        return list(zip(states, ends, strict=True))

    def dead_spans(self, name: str) -> list[tuple[float, float]]:
        """When it had the taint `dead`."""
        return self._spans(name, lambda seen: seen.is_dead)

    def lost_spans(self, name: str) -> list[tuple[float, float]]:
        """When Ready was Unknown."""
        return self._spans(name, lambda seen: seen.ready == "Unknown")

    def _spans(self, name: str, is_so: Callable[[Seen], bool]) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        for seen, end in self.periods(name):
            if not is_so(seen):
                continue
            if found and found[-1][1] == seen.at:
                found[-1] = found[-1][0], end
            else:
                found.append((seen.at, end))
        return found


def running(pods: Mapping[str, Pod], app: str, at: float, *, but_on: str = "") -> int:
    """How many pods of a workload run on other nodes than that."""
    return sum(it.app == app and it.node != but_on and it.runs(at) for it in pods.values())
