"""The few raw calls to a Kubernetes API server that the sidecars make; not a Kubernetes client.

errors       the one table from a failed call to a type
credentials  where the API server is and how to prove who we are; re-read when files change
kubeconfig   the same from a kubeconfig, through the official `kubernetes` package
kept         connections that are used again, and when not
wire         what aiohttp does on the wire that nobody else may see
server       requests and line streams with hard deadlines; writes are never sent twice
watch_event  from a line of a watch to what happened
"""

from .credentials import Credentials, InCluster, Plain, UnusableCredentials
from .errors import ApiError, Conflict, Forbidden, Gone, NotFound, Unreachable
from .server import KEPT_FOR, ApiServer
from .watch_event import WatchEvent, parse_event

__all__ = [
    "KEPT_FOR",
    "ApiError",
    "ApiServer",
    "Conflict",
    "Credentials",
    "Forbidden",
    "Gone",
    "InCluster",
    "NotFound",
    "Plain",
    "Unreachable",
    "UnusableCredentials",
    "WatchEvent",
    "parse_event",
]
