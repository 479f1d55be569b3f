"""A site of three nodes on one machine: `python -m tools.harness.pods.pools --folder site`.

Runs kube-apiserver, etcd and the controllers that watch nodes, with `manifests/overlays/pool`
applied; the pool's controller; and for each node a relay, a member and a stand-in for kubelet.
Starts in a network of its own (`unshare --map-root-user --net`), where each node has an address:
a node that dies loses it, so that its host answers nothing any more. POST to `--listen` breaks
things: /NODE/cut, /NODE/heal, /NODE/die. Ends at SIGINT and SIGTERM, and all processes with it.
"""

import argparse
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.controlplane.clients.kubectl import apply
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.pools.controller import PoolControllerPod
from tools.harness.pods.pools.member import RENEW_EVERY, Kubelet, PoolNode

ROOT = Path(__file__).resolve().parents[4]
# Of each node its address; the subnet is the loopback device's, so that an address that no
# node has is silent.
ADDRESSES = {f"n{number}": f"10.77.0.{number}" for number in (1, 2, 3)}
SUBNET = "10.77.0.0/24"
LAN_PORT = 10555
# kube-controller-manager's, for nodes; half of its own times, so that people need not wait.
CONTROLLERS = ("node-lifecycle-controller", "taint-eviction-controller")
TIMES = ("--node-monitor-grace-period=25s", "--node-monitor-period=2s")
# Renewals of a Lease between two writes of the status, which a real kubelet writes more rarely.
STATUS_EVERY = 3


class ReadyKubelet(Kubelet):
    """Reports its node as Ready, too."""

    def __init__(self, node: str, client: KeptClient) -> None:
        super().__init__(node, client)
        self._renewals = 0

    def renew(self) -> None:
        super().renew()
        if self._renewals % STATUS_EVERY == 0:
            now = rfc3339.stamp_now()
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            body = {"status": {"conditions": [{**ready, "lastHeartbeatTime": now}]}}
            self.client.patch(f"/api/v1/nodes/{self.node}/status", body, timeout=RENEW_EVERY)
        self._renewals += 1


class Site:
    """`nodes` by their names."""

    def __init__(self, nodes: Mapping[str, PoolNode]) -> None:
        self._nodes = nodes

    def change(self, path: str) -> bool:
        """`/NODE/ACTION`; False if there is no such node or action."""
        name, _, action = path.strip("/").partition("/")
        node = self._nodes.get(name)
        if node is None:
            return False
        match action:
            case "cut":
                node.link.refuse()
            case "heal":
                node.link.heal()
            case "die":
                node.kubelet.is_well = False
                node.member.kill()
                node.relay.kill()
                _ip("address", "del", f"{ADDRESSES[name]}/32", "dev", "lo")
            case _:
                return False
        return True


def serve(site: Site, listen: tuple[str, int]) -> ThreadingHTTPServer:
    """Answers POST in threads of its own, until it is shut down."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status = HTTPStatus.NO_CONTENT if site.change(self.path) else HTTPStatus.NOT_FOUND
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Not to standard error."""

    server = ThreadingHTTPServer(listen, Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def run(folder: Path, port: int) -> None:
    """Until SIGINT."""
    _ip("link", "set", "lo", "up")
    for address in ADDRESSES.values():
        _ip("address", "add", f"{address}/32", "dev", "lo")
    _ip("route", "add", SUBNET, "dev", "lo", "src", ADDRESSES["n1"])
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(has_nodes=True))
        stack.enter_context(ControllerManager(plane, more=CONTROLLERS, flags=TIMES))
        apply(plane, ROOT / "manifests/overlays/pool")
        stack.enter_context(PoolControllerPod(plane, folder))
        nodes = {
            name: stack.enter_context(
                PoolNode(
                    plane,
                    name,
                    address=address,
                    lan_port=LAN_PORT,
                    folder=folder,
                    labels={},
                    kubelet=ReadyKubelet,
                )
            )
            for name, address in ADDRESSES.items()
        }
        server = serve(Site(nodes), (LOOPBACK, port))
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        for name, node in nodes.items():
            (folder / name).write_text(f"http://{LOOPBACK}:{node.member.port}\n")
        (folder / "admin.kubeconfig").write_bytes(plane.admin_kubeconfig().read_bytes())
        sys.stdout.write(f"three nodes: {', '.join(nodes)}\n")
        sys.stdout.flush()
        signal.pause()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.harness.pods.pools", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--folder", required=True, type=Path, metavar="DIR", help="made; for files")
    parser.add_argument("--port", default=10580, type=int, help="of 127.0.0.1; default %(default)s")
    arguments = parser.parse_args()
    # A network that was just made has no route; its first line is the titles.
    if len(Path("/proc/net/route").read_text(encoding="ascii").splitlines()) > 1:
        parser.exit(2, "run this in a network of its own: unshare --map-root-user --net bash\n")
    arguments.folder.mkdir()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(arguments.folder, arguments.port)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
