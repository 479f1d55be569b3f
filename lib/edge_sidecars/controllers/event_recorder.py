"""Tells people what happened: Events on objects, as `kubectl describe` shows them.

Owns a bounded queue beside the controller, which never waits for it. Guarantees: an Event's name
follows from the object and the `state` that the controller names, so that two leaders who decide
the same tell it once; what cannot be written is counted and forgotten.
"""

import asyncio
import hashlib
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Never

from edge_sidecars.controllers.guarded_writes import GuardedWrites, Json, NotLeading
from edge_sidecars.kubeapi import ApiError, Conflict, Unreachable
from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.runtime.log import fields, logger

# k8s.io/kubernetes: core validation of EventRecorder, NoteLengthLimit.
MAX_MESSAGE = 1024
MAX_NAME = 253
# Where Events on objects without a namespace are (core validation of Events).
DEFAULT_NAMESPACE = "default"
ATTEMPTS = 3
RETRY = 1.0


@dataclass(frozen=True, slots=True)
class Event:
    """`involved_object`: an ObjectReference of core/v1. `state`: what makes it another Event."""

    involved_object: Json
    reason: str
    message: str
    state: str
    is_warning: bool = False

    @property
    def namespace(self) -> str:
        return str(self.involved_object.get("namespace", DEFAULT_NAMESPACE))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.state.encode()).hexdigest()[:16]


class EventRecorder:
    """`max_waiting`: then the oldest is dropped; `posters`: posts at a time, which go on beside the
    controller's writes. `told` and `dropped` count."""

    def __init__(
        self,
        writes: GuardedWrites,
        *,
        component: str,
        instance: str,
        max_waiting: int,
        posters: int = 1,
    ) -> None:
        self._writes = writes
        self._source = {"component": component, "host": instance}
        self._waiting: deque[tuple[Event, datetime]] = deque(maxlen=max_waiting)
        self._posters = posters
        self._ready = asyncio.Event()
        self.told = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, event: Event) -> None:
        if len(self._waiting) == self._waiting.maxlen:
            self.dropped += 1
        self._waiting.append((event, datetime.now(UTC)))
        self._ready.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._posters):
                group.create_task(self._tell_on())

    async def _tell_on(self) -> Never:
        while True:
            while not self._waiting:
                self._ready.clear()
                await self._ready.wait()
            event, now = self._waiting.popleft()
            if await self._post(event, now):
                self.told += 1
            else:
                self.dropped += 1

    async def _post(self, event: Event, now: datetime) -> bool:
        path = f"/api/v1/namespaces/{event.namespace}/events"
        body, why = event_body(event, self._source, now), ""
        owner = str(event.involved_object["uid"])
        for _ in range(ATTEMPTS):
            try:
                await self._writes.post(path, body, owner=owner)
                return True
            except Conflict:
                return True
            except NotLeading:
                why = "not leading"
            except (ApiError, Unreachable) as error:
                why = str(error)
                if isinstance(error, ApiError) and _is_final(error):
                    break
            await asyncio.sleep(RETRY)
        logger.debug("an Event could not be told", extra=fields(event=event.reason, why=why))
        return False


def _is_final(error: ApiError) -> bool:
    return error.is_refusal and error.status != HTTPStatus.TOO_MANY_REQUESTS


def event_body(event: Event, source: Json, now: datetime) -> Json:
    """An Event of core/v1, which every kubectl knows."""
    stamp = rfc3339.stamp(now)
    name = str(event.involved_object["name"])
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name[: MAX_NAME - len(event.digest) - 1]}.{event.digest}",
            "namespace": event.namespace,
        },
        "involvedObject": event.involved_object,
        "reason": event.reason,
        "message": event.message[:MAX_MESSAGE],
        "type": "Warning" if event.is_warning else "Normal",
        "source": source,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
