"""Which streams are about what `--pool-resource` names: peers of the pool may read those that hold
all of it, and those that hold a part may come from a hub."""

from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.config.preload import Preload
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams


def shared_stream(streams: Streams, declared: Preload) -> Stream | None:
    """The one that holds what was declared, the best of all versions."""
    found = [it for it in streams if is_declared(declared, it)]
    return max(found, key=lambda it: (streams.is_live(it), it.collection.is_synced), default=None)


def is_declared(declared: Preload, stream: Stream) -> bool:
    """Whether a stream is what was declared, no more and no less."""
    return _scope(declared, stream) == stream.scope


def is_shared(declared: Preload, stream: Stream) -> bool:
    """Whether what was declared holds all of a stream."""
    scope = _scope(declared, stream)
    return scope is not None and scope.covers(stream.scope)


def _scope(declared: Preload, stream: Stream) -> ListScope | None:
    """In the stream's version; None of another resource."""
    resource = stream.scope.resource
    is_named = (resource.plural, resource.group) == (declared.plural, declared.group)
    return declared.scope(resource.version) if is_named else None
