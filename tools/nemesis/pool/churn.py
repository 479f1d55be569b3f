"""Changes of the site's Services all the time, so that watch clients have something to see.

Guarantee: none any more when it has been left.
"""

import time
from contextlib import suppress

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.polling import Polling
from tools.nemesis.pool.workloads import CONTROL

INTERVAL = 1.0
ANNOTATION = "nemesis/changed"


class Churn(Polling):
    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__([("churn", self._change)], interval=INTERVAL)
        self._admin = plane.admin
        self._path = f"/api/v1/namespaces/{namespace}/services/{CONTROL}"

    def _change(self) -> None:
        body = {"metadata": {"annotations": {ANNOTATION: f"{time.time():.6f}"}}}
        # The API server may be away.
        with suppress(OSError):
            self._admin.patch(self._path, body)
