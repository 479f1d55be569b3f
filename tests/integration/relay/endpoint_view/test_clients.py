"""kube-proxy and CoreDNS themselves behind the endpoint view, in a network of their own: by their
defaults they ask for protobuf, which the view does not speak.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.relay.endpoint_view.view_site import Json, Site, site_of, until
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.daemon import Daemon
from tools.harness.controlplane.fixtures import lack
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.nodes import programs
from tools.harness.pods.kubelet.pod_network import PodNetwork

# As manifests/components name it.
VIEW_PORT = 10556
DNS_PORT = 10053
# Seconds; a start on a busy machine.
STARTED = 90.0
ADDRESS_OF = {"n1": "10.9.0.1", "n2": "10.9.0.2", "n3": "10.9.0.3"}


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with site_of(control_plane, tmp_path) as found:
        yield found


@pytest.fixture
def network(site: Site) -> Iterator[PodNetwork]:
    if os.geteuid():
        pytest.skip("a network of its own needs root")
    with PodNetwork(VIEW_PORT, site.view_port) as found:
        yield found


def kubeconfig(folder: Path) -> Path:
    """Of the view, as seen from that network."""
    made = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "view", "cluster": {"server": f"http://{LOOPBACK}:{VIEW_PORT}"}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "view", "context": {"cluster": "view", "user": "nobody"}}],
        "current-context": "view",
    }
    path = folder / "view.kubeconfig"
    path.write_text(json.dumps(made))
    return path


@contextmanager
def running(site: Site, network: PodNetwork, command: Sequence[str], log: Path) -> Iterator[Path]:
    daemon = Daemon([*network.prefix, *command], log=log, guardian=site.plane.guardian)
    daemon.start()
    try:
        yield log
        daemon.check_running()
    finally:
        daemon.stop(signal.SIGTERM, timeout=10)


def make_service(site: Site, *, cluster_ip: str | None = None) -> Json:
    spec: Json = {"ports": [{"name": "http", "port": 80, "targetPort": 80}]}
    if cluster_ip is not None:
        spec["clusterIP"] = cluster_ip
    path = f"/api/v1/namespaces/{site.namespace}/services"
    return expect(site.plane.admin.post(path, {"metadata": {"name": "web"}, "spec": spec}))


def make_node(site: Site) -> str:
    """What kube-proxy waits for."""
    name = f"proxied-{secrets.token_hex(3)}"
    expect(site.plane.admin.post("/api/v1/nodes", {"metadata": {"name": name}}))
    status = {"status": {"addresses": [{"type": "InternalIP", "address": "198.18.0.7"}]}}
    expect(site.plane.admin.patch(f"/api/v1/nodes/{name}/status", status))
    return name


def test_endpoint_view_kube_proxy_sends_nothing_to_a_silent_node(
    site: Site, network: PodNetwork, tmp_path: Path
) -> None:
    for tool in ("iptables-save", "iptables-restore"):
        if shutil.which(tool) is None:
            lack(f"{tool} is missing: apt-get install iptables")
    proxy = str(programs.kube_proxy())
    service = make_service(site)
    site.make("web-1", **{"kubernetes.io/service-name": "web"})
    node = make_node(site)
    configuration = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node,
        "clientConnection": {"kubeconfig": str(kubeconfig(tmp_path))},
        "conntrack": {"maxPerCore": 0, "min": 0},
        "oomScoreAdj": 0,
        "iptables": {"minSyncPeriod": "0s"},
        "healthzBindAddress": f"{LOOPBACK}:10256",
        "metricsBindAddress": f"{LOOPBACK}:10249",
    }
    path = tmp_path / "kube-proxy.json"
    path.write_text(json.dumps(configuration))

    def sends_to() -> set[str]:
        command = [*network.prefix, "iptables-save", "-t", "nat"]
        rules = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {
            node
            for node, address in ADDRESS_OF.items()
            if f"--to-destination {address}:80" in rules and service["spec"]["clusterIP"] in rules
        }

    log = tmp_path / "kube-proxy.log"
    with running(site, network, [proxy, f"--config={path}"], log):
        try:
            until(lambda: sends_to() == set(ADDRESS_OF), what="rules for all", timeout=STARTED)
            site.words.say(silent=("n2",), alive=("n3",))
            until(lambda: sends_to() == {"n1", "n3"}, what="nothing is sent to n2")
            site.words.say(alive=("n2", "n3"))
            until(lambda: sends_to() == set(ADDRESS_OF), what="n2 is back")
            site.link.refuse()
            site.relay.wait_link(up=False)
            site.words.say(silent=("n3",), alive=("n2",))
            until(lambda: sends_to() == {"n1", "n2"}, what="nothing is sent to n3, while cut")
            site.relay.kill()
            site.relay.start()
            until(lambda: site.view.get(site.slices).status == 200, what="the view answers")
            site.words.say(silent=("n2",), alive=("n3",))
            until(lambda: sends_to() == {"n1", "n3"}, what="it lists again", timeout=STARTED)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-3000:]}") from error


def test_endpoint_view_coredns_names_no_endpoint_of_a_silent_node(
    site: Site, network: PodNetwork, tmp_path: Path
) -> None:
    coredns = str(programs.coredns())
    make_service(site, cluster_ip="None")
    site.make("web-1", **{"kubernetes.io/service-name": "web"})
    corefile = tmp_path / "Corefile"
    corefile.write_text(
        f".:{DNS_PORT} {{\n    bind {LOOPBACK}\n    errors\n"
        f"    kubernetes cluster.local {{\n        kubeconfig {kubeconfig(tmp_path)} view\n"
        "        ttl 0\n    }\n}\n"
    )
    name = f"web.{site.namespace}.svc.cluster.local"
    log = tmp_path / "coredns.log"

    def named() -> set[str]:
        found = resolve(network, name)
        return {node for node, address in ADDRESS_OF.items() if address in found}

    with running(site, network, [coredns, "-conf", str(corefile)], log):
        try:
            until(lambda: named() == set(ADDRESS_OF), what="all are named", timeout=STARTED)
            site.words.say(silent=("n2",), alive=("n3",))
            until(lambda: named() == {"n1", "n3"}, what="n2 is not named")
            site.link.refuse()
            site.relay.wait_link(up=False)
            site.words.say(alive=("n2", "n3"))
            until(lambda: named() == set(ADDRESS_OF), what="n2 is back, while cut")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-3000:]}") from error


def resolve(network: PodNetwork, name: str) -> set[str]:
    """The addresses of its A records (RFC 1035, 4.1)."""
    labels = b"".join(bytes([len(it)]) + it.encode() for it in name.split("."))
    query = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
    with network.entered():
        asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with asking:
        asking.settimeout(2)
        try:
            asking.sendto(query, (LOOPBACK, DNS_PORT))
            answer = asking.recv(4096)
        except OSError:
            return set()
    # Each record ends with the length of its data and the four bytes of an address.
    return {
        socket.inet_ntoa(answer[at + 2 : at + 6])
        for at in range(len(query), len(answer) - 5)
        if answer[at : at + 2] == b"\0\4"
    }
