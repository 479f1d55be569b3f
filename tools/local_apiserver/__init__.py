"""A Kubernetes API server in one process, for demos and tests: `python -m tools.local_apiserver`.

core             pure: what becomes of an object, in kube-apiserver's words
storage          SQLite, one thread, grouped commits
object_store     versions, collections, and the order in which changes become true
writer           creates, updates, patches and deletes
local_apiserver  which request is whose, without a connection
http_api         requests and watches over HTTP

Bodies are read in JSON alone: typed clients of client-go 0.37 and typed `kubectl create` write in
protobuf and are refused.
"""

from tools.local_apiserver.local_apiserver import LocalApiServer
from tools.local_apiserver.response import Answer
from tools.local_apiserver.storage import Unusable

__all__ = ["Answer", "LocalApiServer", "Unusable"]
