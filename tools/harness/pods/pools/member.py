"""A node of a pool: member and relay as real processes, a stand-in for kubelet, a link to break.

Guarantees: the node reaches the API server through its own proxy only, by its own certificate; its
neighbours reach it at an address of its own of 127.0.0.0/8; whatever a test does to it, `stop`
leaves no process and no file behind.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.clients.answer import Answer, ask
from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.relay import RelayProcess
from tools.harness.processes.process import Process

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
# Seconds; kubelet's own are 10.
RENEW_EVERY = 2.0


class Kubelet:
    """Renews its node's Lease over the node's link every `every` seconds, and answers /healthz."""

    every = RENEW_EVERY

    def __init__(self, node: str, client: KeptClient) -> None:
        self.node = node
        self.client = client
        self.is_well = True
        self._stop = threading.Event()
        kubelet = self

        class Healthz(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = HTTPStatus.OK if kubelet.is_well else HTTPStatus.INTERNAL_SERVER_ERROR
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Not to standard error."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Healthz)
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._threads = [
            threading.Thread(target=self._server.serve_forever, daemon=True),
            threading.Thread(target=self._renew_on, daemon=True),
        ]

    def start(self) -> None:
        spec = {
            "holderIdentity": self.node,
            "leaseDurationSeconds": 40,
            "renewTime": rfc3339.stamp_now("microseconds"),
        }
        expect(self.client.post(LEASES, {"metadata": {"name": self.node}, "spec": spec}))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()
        self.client.close()

    def renew(self) -> None:
        """Raises OSError without an answer."""
        body = {"spec": {"renewTime": rfc3339.stamp_now("microseconds")}}
        self.client.patch(f"{LEASES}/{self.node}", body, timeout=RENEW_EVERY)

    def _renew_on(self) -> None:
        while not self._stop.wait(self.every):
            if not self.is_well:
                continue
            # Its link may be cut: as kubelet, it tries again.
            with suppress(OSError):
                self.renew()


class PoolMemberProcess(Process):
    """`flags` as on the command line; `address` is where neighbours reach it."""

    def __init__(
        self, flags: Sequence[str], *, node: str, address: str, lan_port: int, guardian: Guardian
    ) -> None:
        super().__init__(node, ports=2, guardian=guardian)
        self.port, self.proxy_port = self.ports
        self.data_dir = self._folder / "data"
        self.address, self.lan_port = address, lan_port
        self.flags = [f"--node={node}", *flags]

    def start(self) -> Self:
        """A new process with the same ports and data; returns when it answers."""
        self._launch(
            "pool-sidecar",
            f"--listen={LOOPBACK}:{self.port}",
            f"--proxy-listen={LOOPBACK}:{self.proxy_port}",
            f"--lan-address={self.address}",
            f"--lan-port={self.lan_port}",
            f"--data-dir={self.data_dir}",
            "--log-format=json",
            "--log-level=debug",
            *self.flags,
        )
        self._wait_until(lambda: ask(self.port, "/livez") is not None, what="start")
        return self

    @property
    def token(self) -> str:
        return (self.data_dir / "token").read_text().strip()

    def ask(self, path: str, *, token: str = "", method: str = "GET") -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = ask(self.port, path, method=method, headers=headers)
        assert answer is not None, f"{self.name} does not answer: {self.log_text()[-2000:]}"
        return answer

    def status(self) -> dict[str, Any]:
        return self.ask("/status").json()

    def command(self, *arguments: str) -> str:
        environ = {"POOL_LISTEN": f"{LOOPBACK}:{self.port}"}
        done = self._command("pool-sidecar", *arguments, environ=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout


class PoolNode:
    """A context manager. The Node object is made by `__enter__`, with the labels. `is_followed`:
    its relay goes over a neighbour's link, too. `is_shared`: and shows the pool's streams to its
    peers."""

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        *,
        address: str,
        lan_port: int,
        folder: Path,
        labels: dict[str, str],
        flags: Sequence[str] = (),
        kubelet: Callable[[str, KeptClient], Kubelet] = Kubelet,
        is_followed: bool = True,
        is_shared: bool = False,
    ) -> None:
        self.plane, self.name = plane, name
        self._labels = labels
        self.link = FaultProxy(plane.port)
        files = plane.client_authority.issue_client(
            f"pool-{name}", user=f"system:node:{name}", group="system:nodes"
        )
        self.kubeconfig = write_kubeconfig(
            folder / f"{name}.kubeconfig",
            server=self.link.url,
            ca=plane.ca_bundle.read_bytes(),
            credentials=files,
        )
        context = ssl.create_default_context(cafile=str(plane.ca_bundle))
        context.load_cert_chain(files.certificate, files.key)
        self.kubelet = kubelet(name, KeptClient(LOOPBACK, self.link.port, context))
        self.relay = RelayProcess(
            [f"--kubeconfig={self.kubeconfig}"],
            name=f"relay-{name}",
            guardian=plane.guardian,
        )
        self.member = PoolMemberProcess(
            [
                f"--node-kubeconfig={self.kubeconfig}",
                f"--relay={self.relay.url}",
                f"--relay-status=http://{LOOPBACK}:{self.relay.status_port}",
                f"--kubelet={self.kubelet.url}",
                *flags,
            ],
            node=name,
            address=address,
            lan_port=lan_port,
            guardian=plane.guardian,
        )
        if is_followed:
            self.relay.flags += self.pool_flags
        self.shared = Reservation() if is_shared else None
        if self.shared is not None:
            address = f"{LOOPBACK}:{self.shared.port}"
            self.relay.flags += [f"--pool-listen={address}", "--log-level=debug"]
            self.member.flags.append(f"--relay-pool={address}")

    @property
    def pool_flags(self) -> list[str]:
        """Of a relay of this node."""
        member = self.member
        return [
            f"--pool=http://{LOOPBACK}:{member.port}",
            f"--pool-token-file={member.data_dir / 'token'}",
            f"--pool-connect={LOOPBACK}:{member.proxy_port}",
        ]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._remove)
            body = {"metadata": {"name": self.name, "labels": self._labels}}
            expect(self.plane.admin.post("/api/v1/nodes", body))
            stack.enter_context(self.link)
            self.kubelet.start()
            stack.callback(self.kubelet.stop)
            stack.callback(self.relay.stop)
            self.relay.start()
            stack.callback(self.member.stop)
            self.member.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def renewed(self) -> str:
        """The Lease's renewTime."""
        return str(expect(self.plane.admin.get(f"{LEASES}/{self.name}"))["spec"]["renewTime"])

    @property
    def cloud_link(self) -> tuple[str, str]:
        """Status and message of the Node's condition; empty where it has none."""
        node = expect(self.plane.admin.get(f"/api/v1/nodes/{self.name}"))
        for it in node.get("status", {}).get("conditions", ()):
            if it["type"] == "pool.edge-sidecars.io/CloudLink":
                return it["status"], it.get("message", "")
        return "", ""

    def _remove(self) -> None:
        if self.shared is not None:
            self.shared.release()
        self.plane.admin.delete(f"/api/v1/nodes/{self.name}")
        self.plane.admin.delete(f"{LEASES}/{self.name}")
