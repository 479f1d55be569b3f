"""What GM tells of an object: Events, as `kubectl describe` shows them.

Guarantee: an Event's name follows from the object's state and the words. Nothing is lost with an
Event that cannot be recorded, since the conditions say the same.
"""

from collections.abc import Sequence

from edge_sidecars.controllers.event_recorder import DEFAULT_NAMESPACE, Event, EventRecorder
from edge_sidecars.controllers.guarded_writes import GuardedWrites
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.kinds import API_VERSION, kind_of
from gm.core.engine.plan import EventNote
from gm.hub.core.proof import SecondStream

# Reasons of Events on a Node.
STREAM_REFUSED = "LCStreamRefused"
STREAM_REPLACED = "LCStreamReplaced"
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


def event_namespace(namespaces: Sequence[str]) -> str:
    """Where Events about Nodes are: `default`, as those of Kubernetes, unless GM has no right to
    create them there."""
    may_use_default = not namespaces or DEFAULT_NAMESPACE in namespaces
    return DEFAULT_NAMESPACE if may_use_default else namespaces[0]


def second_stream_event(it: SecondStream, *, namespace: str, uid: str) -> Event:
    """About the Node; one for each token, so that an LC that dials again and again makes one."""
    reason = STREAM_REFUSED if it.is_refused else STREAM_REPLACED
    node = {"apiVersion": "v1", "kind": "Node", "name": it.node, "uid": uid}
    if namespace != DEFAULT_NAMESPACE:
        # The API server wants the namespace of an Event in its object's reference.
        node["namespace"] = namespace
    return Event(
        dict(node),
        reason,
        f"LC of the node: {it.detail}",
        state=f"{it.node} {reason} {it.proof}",
        is_warning=it.is_refused,
    )
