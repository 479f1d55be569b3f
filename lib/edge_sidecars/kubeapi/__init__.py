"""The few raw calls to a Kubernetes API server that the sidecars make; not a Kubernetes client.

client       JSON requests, line streams and watch events: what most callers need
transport    sends any request, and decides on identity, deadlines, failures, reuse and aborts
messages     what is sent; what is received: head, chunks, lines of a watch, an upgraded connection
pool         connections that are used again, and those that outlast the requests that began them
connector    how a connection is made and aborted, and where to, also while DNS is away
aiohttp_private  all that is used of aiohttp without a promise of aiohttp's
errors       the one table from a failed call to a type
credentials  where the API server is and how to prove who we are; what is read again when it changes
kubeconfig   the same from a kubeconfig; kubeconfig_file: its fields; exec_plugin: what gives tokens
reflector    a collection: all objects, then each change; GM and LC import it by itself
"""

from edge_sidecars.kubeapi.client import ApiClient as ApiClient
from edge_sidecars.kubeapi.client import WatchEvent as WatchEvent
from edge_sidecars.kubeapi.client import parse_event as parse_event
from edge_sidecars.kubeapi.connector import SILENCE as SILENCE
from edge_sidecars.kubeapi.credentials import Credentials as Credentials
from edge_sidecars.kubeapi.credentials import InCluster as InCluster
from edge_sidecars.kubeapi.credentials import Plain as Plain
from edge_sidecars.kubeapi.credentials import UnusableCredentials as UnusableCredentials
from edge_sidecars.kubeapi.credentials import pod_credentials as pod_credentials
from edge_sidecars.kubeapi.errors import ApiError as ApiError
from edge_sidecars.kubeapi.errors import Conflict as Conflict
from edge_sidecars.kubeapi.errors import Forbidden as Forbidden
from edge_sidecars.kubeapi.errors import Gone as Gone
from edge_sidecars.kubeapi.errors import NotFound as NotFound
from edge_sidecars.kubeapi.errors import NotSent as NotSent
from edge_sidecars.kubeapi.errors import ProxyRefused as ProxyRefused
from edge_sidecars.kubeapi.errors import StaleConnection as StaleConnection
from edge_sidecars.kubeapi.errors import Unreachable as Unreachable
from edge_sidecars.kubeapi.messages import Request as Request
from edge_sidecars.kubeapi.messages import Response as Response
from edge_sidecars.kubeapi.messages import TooLong as TooLong
from edge_sidecars.kubeapi.pool import MAX_AGE as MAX_AGE
from edge_sidecars.kubeapi.pool import BackgroundConnects as BackgroundConnects
from edge_sidecars.kubeapi.transport import POOLED_FOR as POOLED_FOR
from edge_sidecars.kubeapi.transport import ApiTransport as ApiTransport
