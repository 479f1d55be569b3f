"""The few raw calls to a Kubernetes API server that the sidecars make; not a Kubernetes client.

client       JSON requests and line streams with hard deadlines: what most callers need
transport    sends any request, and decides on identity, deadlines, failures, reuse and aborts
request      what is sent; response: head, chunks, lines of a watch, an upgraded connection
pool         connections that are used again, and when not
connector    how a connection is made and aborted; resolver: where to, also while DNS is away
background_connect  connections that outlast the requests that began them
aiohttp_private     all that is used of aiohttp without a promise of aiohttp's
errors       the one table from a failed call to a type
credentials  where the API server is and how to prove who we are
kubeconfig   the same from a kubeconfig; kubeconfig_file: its fields; exec_plugin: what gives tokens
file_watcher, tls   what is read again when it changes; contexts made of what is in memory
watch        from a line of a watch to what happened
reflector    a collection: all objects, then each change; GM and LC import it by itself
"""

from edge_sidecars.kubeapi.client import ApiClient
from edge_sidecars.kubeapi.credentials import Credentials, InCluster, Plain, UnusableCredentials
from edge_sidecars.kubeapi.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    NotSent,
    StaleConnection,
    Unreachable,
)
from edge_sidecars.kubeapi.request import Request
from edge_sidecars.kubeapi.response import Response, TooLong
from edge_sidecars.kubeapi.transport import POOLED_FOR, ApiTransport
from edge_sidecars.kubeapi.watch import WatchEvent, parse_event

__all__ = [
    "POOLED_FOR",
    "ApiClient",
    "ApiError",
    "ApiTransport",
    "Conflict",
    "Credentials",
    "Forbidden",
    "Gone",
    "InCluster",
    "NotFound",
    "NotSent",
    "Plain",
    "Request",
    "Response",
    "StaleConnection",
    "TooLong",
    "Unreachable",
    "UnusableCredentials",
    "WatchEvent",
    "parse_event",
]
