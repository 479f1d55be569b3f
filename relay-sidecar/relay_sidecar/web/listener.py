"""The relay's sockets: how many connections they hold, and what Kubernetes' clients expect of one.

Guarantee: clients can never use up the file descriptors that upstream, the journal and the other
listener need; a client that watches or waits for its answer keeps its connection.
"""

import ssl

from edge_sidecars.runtime.values import Address
from edge_sidecars.runtime.web.connection_limit import Handler
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions

# Kept for connections to upstream, the journal and the runtime itself.
RESERVED_DESCRIPTORS = 128
MIN_CONNECTIONS = 16
# Seconds; Go's transports keep a connection for 90: the client is to end it, not we while a
# request is on its way.
KEPT_FOR = 120.0
# Bytes; as Go's servers: http.DefaultMaxHeaderBytes. Selectors stand in the first line.
MAX_HEADER = 1024 * 1024
_OPTIONS = ListenerOptions(
    log="relay.http",
    # So many wait in the kernel: all informers of a pod come at once.
    backlog=512,
    shutdown_grace=1.0,
    # A client that left is not waited for: what was asked for it upstream ends, too.
    ends_with_client=True,
    http={
        "keepalive_timeout": KEPT_FOR,
        "max_line_size": MAX_HEADER,
        "max_field_size": MAX_HEADER,
        "auto_decompress": False,
    },
)


def listening(
    address: Address, handler: Handler, *, limit: int, tls: ssl.SSLContext | None = None
) -> Listener:
    """Of whatever is served: the Kubernetes API, or the relay's own endpoints."""
    return Listener(address, handler, options=_OPTIONS, limit=limit, tls=tls)


def connection_limit(descriptors: int, *, wanted: int, others: int) -> int:
    """Of a listener beside which `others` connections may come; each costs a descriptor, and one
    that is passed on another to upstream."""
    share = (descriptors - RESERVED_DESCRIPTORS - others) // 2
    return max(min(wanted, share), MIN_CONNECTIONS)
