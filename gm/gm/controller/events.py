"""Tells people what happened: Events on the objects, as `kubectl describe` shows them.

Owns a bounded queue beside the controller, which never waits for it. Guarantees: an Event's name
follows from the object's state and the words, so that two leaders who decide the same tell it once;
what cannot be told is counted and forgotten, since the conditions say the same.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime

from edge_sidecars.kubeapi import ApiError, Conflict, Unreachable
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, Json
from edge_sidecars.sedna_api.core.kinds import API_VERSION, kind_of
from gm.controller.api_writes import ApiWrites, NotLeading
from gm.core.engine.plan import EventNote

COMPONENT = "sedna-gm"
# k8s.io/kubernetes: core validation of EventRecorder, NoteLengthLimit.
MAX_MESSAGE = 1024
MAX_NAME = 253
# Each holds an object's document, which the informers most likely has too.
MAX_WAITING = 10_000
# Posts at a time: the controller's writes, which matter more, go on beside them.
POSTERS = 4
ATTEMPTS = 3
RETRY = 1.0


class EventRecorder:
    """`dropped` counts those that nobody will see."""

    def __init__(self, writes: ApiWrites, *, instance: str) -> None:
        self._writes = writes
        self._instance = instance
        self._waiting: deque[tuple[Document, EventNote, datetime]] = deque(maxlen=MAX_WAITING)
        self._ready = asyncio.Event()
        self.told = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, document: Document, notes: Iterable[EventNote]) -> None:
        """About an object in the state that was decided at."""
        for note in notes:
            if len(self._waiting) == MAX_WAITING:
                self.dropped += 1
            self._waiting.append((document, note, datetime.now(UTC)))
            self._ready.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(POSTERS):
                group.create_task(self._tell_on())

    async def _tell_on(self) -> None:
        while True:
            while not self._waiting:
                self._ready.clear()
                await self._ready.wait()
            document, note, now = self._waiting.popleft()
            path = f"/api/v1/namespaces/{document.namespace}/events"
            body = event(document, note, self._instance, now)
            if await self._post(path, body, owner=document.uid):
                self.told += 1
            else:
                self.dropped += 1

    async def _post(self, path: str, body: Json, *, owner: str) -> bool:
        why = ""
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
                if isinstance(error, ApiError) and error.is_refusal and error.status != 429:
                    break
            await asyncio.sleep(RETRY)
        logger.debug("an Event could not be told", extra=fields(event=body["reason"], why=why))
        return False


def event(document: Document, note: EventNote, instance: str, now: datetime) -> Json:
    """An Event of core/v1, which every kubectl and every RBAC rule of Sedna's knows."""
    words = f"{document.uid} {document.resource_version} {note.reason} {note.message}"
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{document.name[: MAX_NAME - len(digest) - 1]}.{digest}",
            "namespace": document.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": kind_of(document.kind).kind,
            "namespace": document.namespace,
            "name": document.name,
            "uid": document.uid,
            "resourceVersion": str(document.resource_version),
        },
        "reason": note.reason,
        "message": note.message[:MAX_MESSAGE],
        "type": "Warning" if note.is_warning else "Normal",
        "source": {"component": COMPONENT, "host": instance},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
