"""`python -m tools.nemesis.pool.kubelet --node n1 …`: a stand-in for kubelet as a process, that can
be killed, frozen and started again.

It renews its node's Lease, says that its node is Ready where the API has it otherwise, answers
/healthz, and does for the pods of its node what kubelet does: they run, and end when they are to.
Guarantee: it speaks to the API server by its node's certificate and over its node's link alone.
"""

import argparse
import ssl
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.controlplane.access.accounts import RequestRefusedError, expect
from tools.harness.controlplane.clients.admin import Json
from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.pools.member import LEASES
from tools.nemesis.pool.objects import condition

# Seconds: between two renewals (kubelet's own are 10), and between two looks at pods.
RENEW_EVERY = 5.0
LOOK_EVERY = 2.0
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
# Seconds for an answer.
TIMEOUT = 5.0
CAPACITY = {"pods": "110", "cpu": "8", "memory": "16Gi"}


class NodeAgent:
    def __init__(
        self, node: str, client: KeptClient, *, number: int, renew_every: float = RENEW_EVERY
    ) -> None:
        """`number`: of the node, for the addresses of its pods; `renew_every` in seconds."""
        self._node, self._client, self._number = node, client, number
        self._renew_every = renew_every
        self._renew_at = 0.0

    def run(self, ended: threading.Event) -> None:
        """Until then."""
        while not ended.wait(LOOK_EVERY):
            # Its link may be cut, its API server away: as kubelet, it tries again.
            with suppress(OSError, RequestRefusedError):
                self._turn()
        self._client.close()

    def _turn(self) -> None:
        now = time.monotonic()
        if now >= self._renew_at:
            self._renew_at = now + self._renew_every
            self._renew()
            self._tell_ready()
        self._look_after_pods()

    def _renew(self) -> None:
        spec: Json = {"renewTime": rfc3339.stamp_now("microseconds")}
        path = f"{LEASES}/{self._node}"
        status, _ = self._client.patch(path, {"spec": spec}, timeout=TIMEOUT)
        if status == HTTPStatus.NOT_FOUND:
            spec |= {"holderIdentity": self._node, "leaseDurationSeconds": 40}
            body = {"metadata": {"name": self._node}, "spec": spec}
            expect(self._client.post(LEASES, body, timeout=TIMEOUT))

    def _tell_ready(self) -> None:
        path = f"/api/v1/nodes/{self._node}"
        node = expect(self._client.get(path, timeout=TIMEOUT))
        if condition(node, "Ready") == "True":
            return
        now = rfc3339.stamp_now("seconds")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        ready |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
        status = {"conditions": [ready], "capacity": CAPACITY, "allocatable": CAPACITY}
        body = {"status": status}
        expect(
            self._client.patch(
                f"{path}/status", body, content_type=STRATEGIC_MERGE, timeout=TIMEOUT
            )
        )

    def _look_after_pods(self) -> None:
        query = f"fieldSelector=spec.nodeName%3D{self._node}"
        for pod in expect(self._client.get(f"/api/v1/pods?{query}", timeout=TIMEOUT))["items"]:
            self._look_after(pod)

    def _look_after(self, pod: Json) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            self._client.delete(path, body, timeout=TIMEOUT)
        elif condition(pod, "Ready") != "True":
            address = pod.get("status", {}).get("podIP") or self._address(metadata["uid"])
            status = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "podIP": address,
                "podIPs": [{"ip": address}],
            }
            body = {"metadata": {"uid": metadata["uid"]}, "status": status}
            self._client.patch(
                f"{path}/status", body, content_type=STRATEGIC_MERGE, timeout=TIMEOUT
            )

    def _address(self, uid: str) -> str:
        return f"198.18.{100 + self._number}.{int(uid[:8], 16) % 254 + 1}"


class _Healthz(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Not to standard error."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", required=True)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--server", required=True, help="HOST:PORT")
    parser.add_argument("--healthz-port", type=int, required=True)
    for name in ("--ca", "--certificate", "--key"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--renew-every", type=float, default=RENEW_EVERY, metavar="SECONDS")
    arguments = parser.parse_args()
    context = ssl.create_default_context(cafile=str(arguments.ca))
    context.load_cert_chain(arguments.certificate, arguments.key)
    host, _, port = arguments.server.rpartition(":")
    server = ThreadingHTTPServer((LOOPBACK, arguments.healthz_port), _Healthz)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = KeptClient(host, int(port), context)
    agent = NodeAgent(
        arguments.node, client, number=arguments.number, renew_every=arguments.renew_every
    )
    agent.run(threading.Event())


if __name__ == "__main__":
    main()
