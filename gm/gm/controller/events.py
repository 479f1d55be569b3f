"""What GM tells of an object: Events, as `kubectl describe` shows them.

Guarantee: an Event's name follows from the object's state and the words. Nothing is lost with an
Event that cannot be told, since the conditions say the same.
"""

from edge_sidecars.controllers.event_recorder import Event, EventRecorder
from edge_sidecars.controllers.guarded_writes import GuardedWrites
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.kinds import API_VERSION, kind_of
from gm.core.engine.plan import EventNote

COMPONENT = "sedna-gm"
MAX_WAITING = 10_000
POSTERS = 4


def event_recorder(writes: GuardedWrites, *, instance: str) -> EventRecorder:
    return EventRecorder(
        writes, component=COMPONENT, instance=instance, max_waiting=MAX_WAITING, posters=POSTERS
    )


def event(document: Document, note: EventNote) -> Event:
    """About an object in the state that was decided at."""
    return Event(
        {
            "apiVersion": API_VERSION,
            "kind": kind_of(document.kind).kind,
            "namespace": document.namespace,
            "name": document.name,
            "uid": document.uid,
            "resourceVersion": str(document.resource_version),
        },
        note.reason,
        note.message,
        state=f"{document.uid} {document.resource_version} {note.reason} {note.message}",
        is_warning=note.is_warning,
    )
