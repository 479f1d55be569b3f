"""The sockets on which LC is asked: how many connections they hold, and how they are left.

Guarantee: clients can never use up the file descriptors that the store, datasets and the link need.
"""

from edge_sidecars.runtime.values import Address
from edge_sidecars.runtime.web import listener
from edge_sidecars.runtime.web.connection_limit import Handler

# More than the workers of a node, each of which opens a connection for each report.
MAX_CONNECTIONS = 512
# Kept for datasets, the store, the link and the runtime itself.
RESERVED_DESCRIPTORS = 128
MIN_CONNECTIONS = 8
_OPTIONS = listener.ListenerOptions(
    log="lc.http",
    backlog=128,
    # Requests that were begun may be answered.
    shutdown_grace=5.0,
    # What a worker said is taken also where the worker left: it may have been killed.
    ends_with_client=False,
)


def listening(address: Address, handler: Handler, *, limit: int) -> listener.Listener:
    return listener.Listener(address, handler, options=_OPTIONS, limit=limit)


def connection_limit(listeners: int) -> int:
    """For each of so many listeners, which share this process' descriptors."""
    return listener.connection_limit(
        listeners, most=MAX_CONNECTIONS, least=MIN_CONNECTIONS, reserved=RESERVED_DESCRIPTORS
    )
