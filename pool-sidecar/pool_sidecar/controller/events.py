"""Tells people what was decided, by Events on Nodes, as `kubectl describe node` shows them.

Guarantees: the controller never waits for an Event; one is told once for as long as it is so, and
two controllers that decide the same tell it once, since its name follows from the Node, the reason
and the moment at which the Node's Ready last changed. What cannot be told is counted and forgotten.
"""

import asyncio
import hashlib
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Never

from edge_sidecars.kubeapi import ApiError, Conflict, Unreachable
from edge_sidecars.runtime.log import fields, logger
from pool_sidecar.controller.api import NotLeading, PoolApi
from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.pool_member import Json

COMPONENT: Final = "pool-controller"
# k8s.io/kubernetes: core validation of EventRecorder, NoteLengthLimit.
MAX_MESSAGE: Final = 1024
MAX_NAME: Final = 253
MAX_WAITING: Final = 1000
# So many are remembered as told; more are told again, to the same effect.
MAX_TOLD: Final = 20_000
ATTEMPTS: Final = 3
RETRY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Note:
    node: NodeState
    reason: str
    message: str
    is_warning: bool = True

    @property
    def digest(self) -> str:
        words = f"{self.node.uid} {self.reason} {self.node.ready_since}"
        return hashlib.sha256(words.encode()).hexdigest()[:16]


class PoolEvents:
    """`told` and `dropped` count."""

    def __init__(self, api: PoolApi, *, instance: str) -> None:
        self._api = api
        self._instance = instance
        self._waiting: deque[Note] = deque()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._ready = asyncio.Event()
        self.told = 0
        self.dropped = 0

    def tell(self, note: Note) -> None:
        """Nothing where it was told already."""
        if note.digest in self._known:
            return
        self._known[note.digest] = None
        while len(self._known) > MAX_TOLD:
            self._known.popitem(last=False)
        level = logger.warning if note.is_warning else logger.info
        detail = fields(node=note.node.name, reason=note.reason, what=note.message)
        level("told of a node", extra=detail)
        if len(self._waiting) == MAX_WAITING:
            self.dropped += 1
            return
        self._waiting.append(note)
        self._ready.set()

    def forget(self, note: Note) -> None:
        """It is over: when it is so again, that is news."""
        self._known.pop(note.digest, None)

    async def run(self) -> Never:
        """Until cancelled."""
        while True:
            while not self._waiting:
                self._ready.clear()
                await self._ready.wait()
            if await self._post(self._waiting.popleft()):
                self.told += 1
            else:
                self.dropped += 1

    async def _post(self, note: Note) -> bool:
        why = ""
        for _ in range(ATTEMPTS):
            try:
                await self._api.post_event(event(note, self._instance, datetime.now(UTC)))
                return True
            except Conflict:
                return True
            except NotLeading:
                why = "not leading"
            except (ApiError, Unreachable) as error:
                why = str(error)
            await asyncio.sleep(RETRY)
        logger.debug("an Event could not be told", extra=fields(reason=note.reason, why=why))
        return False


def event(note: Note, instance: str, now: datetime) -> Json:
    """An Event of core/v1."""
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{note.node.name[: MAX_NAME - len(note.digest) - 1]}.{note.digest}",
            "namespace": "default",
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": note.node.name,
            "uid": note.node.uid,
        },
        "reason": note.reason,
        "message": note.message[:MAX_MESSAGE],
        "type": "Warning" if note.is_warning else "Normal",
        "source": {"component": COMPONENT, "host": instance},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
