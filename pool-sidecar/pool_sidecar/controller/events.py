"""Tells people what was decided, by Events on Nodes, as `kubectl describe node` shows them.

Guarantees: an Event is recorded once for as long as its cause lasts; two controllers that decide
the same record one, since its name follows from the Node, the reason and the moment at which the
Node's Ready last changed.
"""

from collections import OrderedDict
from typing import Final

from edge_sidecars.controllers.event_recorder import Event, EventRecorder
from edge_sidecars.controllers.guarded_writes import GuardedWrites
from edge_sidecars.runtime.log import fields, logger
from pool_sidecar.core.controller.node_state import NodeState

COMPONENT: Final = "pool-controller"
MAX_WAITING: Final = 1000
# Bounds what is remembered as recorded; more are recorded again, to the same effect.
MAX_TOLD: Final = 20_000


class NodeEvents:
    def __init__(self, writes: GuardedWrites, *, instance: str) -> None:
        self.recorder = EventRecorder(
            writes, component=COMPONENT, instance=instance, max_waiting=MAX_WAITING
        )
        self._known: OrderedDict[str, None] = OrderedDict()

    def tell(self, node: NodeState, reason: str, message: str, *, is_warning: bool = True) -> None:
        """Records nothing twice."""
        found = event(node, reason, message, is_warning=is_warning)
        if found.digest in self._known:
            return
        self._known[found.digest] = None
        while len(self._known) > MAX_TOLD:
            self._known.popitem(last=False)
        level = logger.warning if is_warning else logger.info
        level("told of a node", extra=fields(node=node.name, reason=reason, what=message))
        self.recorder.tell(found)


def event(node: NodeState, reason: str, message: str, *, is_warning: bool) -> Event:
    return Event(
        {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
        reason,
        message,
        state=f"{node.uid} {reason} {node.ready_since}",
        is_warning=is_warning,
    )
