"""A node with the endpoint view of a real relay, a pool-sidecar whose words the test has, and
slices that the test writes as the endpoints controller would.
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.relay.endpoint_view.words import PoolWords
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller

Json = dict[str, Any]
GROUP = "/apis/discovery.k8s.io/v1"
ALL = f"{GROUP}/endpointslices"
NODES = ("n1", "n2", "n3")
SOON = 30.0


@dataclass
class Site:
    """A node with a relay, its pool-sidecar's words, and slices in the cloud."""

    plane: ControlPlane
    link: FaultProxy
    words: PoolWords
    relay: RelayProcess
    view_port: int
    view: Caller
    namespace: str

    @property
    def slices(self) -> str:
        return f"{GROUP}/namespaces/{self.namespace}/endpointslices"

    def make(self, name: str = "web-1", *, nodes: Sequence[str] = NODES, **labels: str) -> None:
        made = slice_of(self.namespace, name, dict.fromkeys(nodes, True), labels)
        expect(self.plane.admin.post(self.slices, made))

    def mark(self, ready: dict[str, bool], name: str = "web-1") -> None:
        """As the controller does."""
        endpoints = slice_of(self.namespace, name, ready, {})["endpoints"]
        patch = {"endpoints": endpoints}
        expect(self.plane.admin.patch(f"{self.slices}/{name}", patch))

    def listed(self, name: str = "web-1") -> str:
        """Nodes whose endpoints are ready in a LIST of the view."""
        items = self.view.get(self.slices, {"resourceVersion": "0"}).expect()["items"]
        return next((ready_of(it) for it in items if it["metadata"]["name"] == name), "")

    def upstream(self, name: str = "web-1") -> str:
        return ready_of(expect(self.plane.admin.get(f"{self.slices}/{name}")))

    def ordinary(self) -> Caller:
        return Caller(self.relay.url)


def slice_of(namespace: str, name: str, ready: dict[str, bool], labels: dict[str, str]) -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [f"10.9.0.{number}"],
                "conditions": {"ready": it, "serving": it, "terminating": False},
                "nodeName": node,
                "targetRef": {
                    "kind": "Pod",
                    "namespace": namespace,
                    "name": f"{name}-{node}",
                    "uid": f"uid-{name}-{node}",
                },
            }
            for number, (node, it) in enumerate(ready.items(), 1)
        ],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }


def ready_of(found: Json) -> str:
    ready = (it["nodeName"] for it in found["endpoints"] or () if it["conditions"]["ready"])
    return " ".join(ready)


def until(condition: Callable[[], bool], *, what: str, timeout: float = SOON) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout:g}s: {what}"
        time.sleep(0.05)


@contextmanager
def site_of(
    plane: ControlPlane,
    folder: Path,
    *flags: str,
    kubeconfig: Path | None = None,
    authority: Authority | None = None,
) -> Iterator[Site]:
    namespace = f"view-{secrets.token_hex(3)}"
    expect(plane.admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}}))
    with ExitStack() as stack:
        link = FaultProxy(plane.port)
        stack.callback(link.stop)
        link.start()
        port = Reservation()
        stack.callback(port.release)
        words = stack.enter_context(PoolWords("n1", folder))
        serving = None
        if authority is not None:
            serving = authority.issue_server(f"relay-{namespace}", hosts=[LOOPBACK])
        relay = RelayProcess(
            [
                f"--kubeconfig={kubeconfig or plane.admin_kubeconfig(server=link.url)}",
                "--probe-interval=300ms",
                f"--endpoint-view={LOOPBACK}:{port.port}",
                *words.flags,
                *flags,
            ],
            guardian=plane.guardian,
            serving=serving,
        )
        stack.callback(relay.stop)
        words.say(alive=("n2", "n3"))
        relay.start().wait_link(up=True)
        scheme, context = "http", None
        if authority is not None:
            scheme = "https"
            context = ssl.create_default_context(cafile=str(authority.bundle))
        view = Caller(f"{scheme}://{LOOPBACK}:{port.port}", context=context)
        yield Site(plane, link, words, relay, port.port, view, namespace)
        assert "Traceback" not in relay.log_text(all_lives=True), relay.log_text(all_lives=True)
