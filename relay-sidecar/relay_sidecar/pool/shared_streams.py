"""Which streams are about what `--pool-resource` names: peers of the pool may read those that hold
all of it, and those that hold a part may come from a hub."""

from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from relay_sidecar.config.preload import Preload
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams


def shared_stream(streams: Streams, declared: Preload) -> Stream | None:
    """The one that holds what was declared, the best of all versions."""
    found = [it for it in streams if is_declared(declared, it)]
    return max(found, key=lambda it: (it.is_live(), it.collection.is_synced), default=None)


def is_declared(declared: Preload, stream: Stream) -> bool:
    """Whether a stream is what was declared, no more and no less."""
    return _scope(declared, stream.scope.resource) == stream.scope


def is_shared(declared: Preload, scope: ListScope) -> bool:
    """Whether what was declared holds all of it."""
    whole = _scope(declared, scope.resource)
    return whole is not None and whole.covers(scope)


def _scope(declared: Preload, resource: ResourceName) -> ListScope | None:
    """In the resource's version; None of another resource."""
    is_named = (resource.plural, resource.group) == (declared.plural, declared.group)
    return declared.scope(resource.version) if is_named else None
