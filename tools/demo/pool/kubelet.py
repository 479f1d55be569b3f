"""A stand-in for kubelet that also says, over its own link, that its node is Ready.

Guarantee: Ready's lastTransitionTime changes only where Ready was another, as kubelet has it.
"""

import time

from edge_sidecars.runtime.formats import rfc3339
from tools.demo.pool.cloud_state import condition
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.pods.pools.member import Kubelet

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
# Renewals after a gap: what the cloud thinks of the node may change once more.
LOOKS = 3


class NodeKubelet(Kubelet):
    # Seconds: between the 10 of kubelet and what people like to wait for.
    every = 5.0

    def __init__(self, node: str, client: KeptClient) -> None:
        super().__init__(node, client)
        self._looks = 0
        self._renewed_at = time.monotonic()

    def start(self) -> None:
        self._tell_ready()
        super().start()

    def renew(self) -> None:
        """Raises OSError without an answer."""
        super().renew()
        now = time.monotonic()
        if now - self._renewed_at > 2 * self.every:
            self._looks = LOOKS
        self._renewed_at = now
        if self._looks:
            self._tell_ready()
            self._looks -= 1

    def _tell_ready(self) -> None:
        """Where the API has it otherwise."""
        path = f"/api/v1/nodes/{self.node}"
        if condition(expect(self.client.get(path, timeout=self.every)), "Ready") == "True":
            return
        now = rfc3339.stamp_now()
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        body = {"status": {"conditions": [ready]}}
        expect(
            self.client.patch(
                f"{path}/status", body, content_type=STRATEGIC_MERGE, timeout=self.every
            )
        )
