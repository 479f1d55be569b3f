"""`--origin local`: a Kubernetes API in one process, without anything above it.

core         pure: what becomes of an object, in kube-apiserver's words
storage      SQLite, one thread, grouped commits
ledger       versions, collections, and the order in which changes become true
writer       creates, updates, patches and deletes
origin       which request is whose; what the rest of the relay is given
"""

from edge_sidecars.local_apiserver.local_apiserver import LocalApiServer
from edge_sidecars.local_apiserver.response import Answer
from edge_sidecars.local_apiserver.storage import Unusable

__all__ = ["Answer", "LocalApiServer", "Unusable"]
