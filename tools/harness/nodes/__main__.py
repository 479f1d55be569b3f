"""Two edge nodes and their cloud on one machine: `python -m tools.harness.nodes --folder site`.

Runs kube-apiserver, etcd, the scheduler and the controllers; and two nodes as containers, each with
systemd, containerd and kubelet, behind a router. relay-sidecar is on their disks, and nothing of it
is installed. Writes into the folder: the kubeconfig of an administrator, the address of the Docker
engine, the id of each node's container, and the kustomizations that nodes with a relay need. POST
to `--port`: /NODE/cut and /NODE/heal. Ends at SIGINT and SIGTERM, and all containers with it.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import yaml

from tests.unit.manifests.built import MANIFESTS
from tools.harness.containers.engine.engine import NoEngine, engine, engine_address
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.controlplane.build import BuildError
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.node import Node
from tools.images.base import NoBase, base_image
from tools.images.wheels import NoWheels

NAMES = ("edge-1", "edge-2")


def serve(cluster: NodeCluster, port: int) -> ThreadingHTTPServer:
    """Answers POST in threads of its own, until it is shut down."""
    actions: dict[str, Callable[[Node], None]] = {"cut": Node.cut, "heal": Node.heal}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            name, _, action = self.path.strip("/").partition("/")
            is_known = name in cluster.nodes and action in actions
            if is_known:
                actions[action](cluster.nodes[name])
            self.send_response(HTTPStatus.NO_CONTENT if is_known else HTTPStatus.NOT_FOUND)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Not to standard error."""

    server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def run(folder: Path, port: int) -> None:
    """Until SIGINT."""
    with ExitStack() as stack:
        client = stack.enter_context(engine())
        docker_lab = stack.enter_context(DockerLab(client, base=base_image(client)))
        work = folder / "files"
        work.mkdir()
        cluster = stack.enter_context(NodeCluster(client, docker_lab, work, names=NAMES))
        server = serve(cluster, port)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        _write_addons(folder / "addons", cluster)
        (folder / "docker-host").write_text(f"{engine_address()}\n")
        for name, node in cluster.nodes.items():
            (folder / name).write_text(f"{node.container_id}\n")
        (folder / "admin.kubeconfig").write_bytes(cluster.plane.admin_kubeconfig().read_bytes())
        sys.stdout.write(f"two nodes: {', '.join(cluster.nodes)}\n")
        sys.stdout.flush()
        signal.pause()


def _write_addons(folder: Path, cluster: NodeCluster) -> None:
    """A kustomization of all that nodes with a relay need from the cluster."""
    folder.mkdir()
    sources = [MANIFESTS / "overlays" / "node", *cluster.write_seconds()]
    # kustomize takes no absolute paths.
    resources = [os.path.relpath(it.resolve(), folder.resolve()) for it in sources]
    body = yaml.safe_dump({"resources": resources})
    (folder / "kustomization.yaml").write_text(body, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.harness.nodes", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--folder", required=True, type=Path, metavar="DIR", help="made; for files")
    parser.add_argument("--port", default=10590, type=int, help="of 127.0.0.1; default %(default)s")
    arguments = parser.parse_args()
    arguments.folder.mkdir()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Folders that the engine mounts have whole paths.
        run(arguments.folder.resolve(), arguments.port)
    except KeyboardInterrupt:
        return
    except (BuildError, NoBase, NoEngine, NoWheels) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
