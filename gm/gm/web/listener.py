"""The socket of GM's own endpoints: how many connections it holds, and how it is left.

Guarantee: kubelet, Prometheus and people can never use up the descriptors that LCs and the API
need.
"""

from edge_sidecars.runtime.values import Address
from edge_sidecars.runtime.web.connection_limit import Handler
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions

MAX_CONNECTIONS = 64
_OPTIONS = ListenerOptions(log="gm.http", backlog=64, shutdown_grace=1.0)


def listening(address: Address, handler: Handler) -> Listener:
    return Listener(address, handler, options=_OPTIONS, limit=MAX_CONNECTIONS)
