"""The few raw calls to a Kubernetes API server that the sidecars make; not a Kubernetes client.

errors       the one table from a failed call to a type
credentials  where the API server is and how to prove who we are
kubeconfig   the same from a kubeconfig; kubeconfig_file: its fields; exec_plugin: what gives tokens
watched_files, tls   what is read again when it changes; contexts made of what is in memory
kept         connections that are used again, and when not
set_up       connections while they are set up, beside the requests that want them
exchange     any request, passed on as it is, with bodies that stream both ways
answer       what comes back: head, chunks, lines of a watch, an upgraded connection
dialer       how a connection is made and cut; resolver: where to, also while nobody can tell
wire         what aiohttp does on the wire that nobody else may see
server       requests and line streams with hard deadlines; writes are never sent twice
watch_event  from a line of a watch to what happened
"""

from edge_sidecars.kubeapi.credentials import Credentials, InCluster, Plain, UnusableCredentials
from edge_sidecars.kubeapi.errors import (
    ApiError,
    Conflict,
    Dropped,
    Forbidden,
    Gone,
    NotFound,
    NotSent,
    Unreachable,
    api_error,
)
from edge_sidecars.kubeapi.request import ApiTransport
from edge_sidecars.kubeapi.response import Answer, TooLong
from edge_sidecars.kubeapi.server import KEPT_FOR, ApiServer
from edge_sidecars.kubeapi.watch import WatchEvent, parse_event

__all__ = [
    "KEPT_FOR",
    "Answer",
    "ApiError",
    "ApiServer",
    "ApiTransport",
    "Conflict",
    "Credentials",
    "Dropped",
    "Forbidden",
    "Gone",
    "InCluster",
    "NotFound",
    "NotSent",
    "Plain",
    "TooLong",
    "Unreachable",
    "UnusableCredentials",
    "WatchEvent",
    "api_error",
    "parse_event",
]
