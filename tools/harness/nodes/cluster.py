"""A control plane and three edge nodes behind a router: two with a relay each, which tests cut off,
and one without, which stays, so that the control plane does not take a lost cloud for lost nodes.

Owns a namespace with workloads, and who runs where. A context manager.
"""

import copy
import json
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import docker

from tests.unit.manifests import node_addons
from tests.unit.manifests.built import MANIFESTS, named, overlay, write_kustomization
from tools.harness.containers.control_plane import control_plane
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.networks.router import Router, owner
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.api_server import STOP_TIMEOUT
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.daemon import Daemon
from tools.harness.nodes import programs, workloads
from tools.harness.nodes.configuration import CLIENT_CA, DNS_ADDRESS
from tools.harness.nodes.images import node_image, pod_images, relay_folder
from tools.harness.nodes.node import RELAY, Node
from tools.harness.nodes.workloads import LABEL, NAMESPACE, PLAIN, RELAYED, PodFacts
from tools.harness.peers.kubectl import Kubectl

Json = dict[str, Any]

KEY_FILE = "/etc/relay-sidecar/key"
POD_LISTEN = f"{DNS_ADDRESS}:10550"
# Seconds in which something that is waited for must be so, on a busy machine.
PATIENCE = 240.0
POLL_INTERVAL = 0.2
_CONTROLLERS = (
    *(
        "certificatesigningrequest-approving-controller",
        "certificatesigningrequest-signing-controller",
    ),
    *("daemonset-controller", "endpointslice-controller", "node-ipam-controller"),
    *("node-lifecycle-controller", "persistentvolume-binder-controller"),
    *("persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller"),
    "pod-garbage-collector-controller",
    *("root-ca-certificate-publisher-controller", "serviceaccount-controller"),
    *("statefulset-controller", "taint-eviction-controller"),
)
# kube-proxy's, on a machine whose settings it may not change.
_PROXY = {
    "conntrack": {"maxPerCore": 0, "min": 0},
    "oomScoreAdj": 0,
    "iptables": {"minSyncPeriod": "0s"},
}


class NodeCluster:
    """`nodes` by name; `relayed`: those of them with a relay (RELAYED). `folder` is for what is
    made for them; nothing is installed on them yet."""

    def __init__(
        self,
        client: docker.DockerClient,
        docker_lab: DockerLab,
        folder: Path,
        *,
        names: Sequence[str] = (*RELAYED, PLAIN),
    ) -> None:
        self._folder = folder
        self._stack = ExitStack()
        image = node_image(client)
        relay = relay_folder(client, folder, image=image)
        images = pod_images(client, folder)
        cloud = Network(docker_lab, f"edge-sidecars-node-cloud-{os.getpid()}")
        edge = Network(docker_lab, f"edge-sidecars-node-edge-{os.getpid()}")
        self.plane = control_plane(docker_lab, cloud, has_nodes=True)
        self._router = Router(docker_lab, cloud, edge)
        self._router.lead(owner(docker_lab, cloud, self.plane.host), of=cloud)
        self.nodes = {
            name: Node(
                docker_lab,
                self.plane,
                name,
                image=image,
                network=edge,
                router=self._router,
                relay=relay,
                images=images,
            )
            for name in names
        }
        self.relayed = [node for name, node in self.nodes.items() if name in RELAYED]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes.values():
                stack.callback(node.remove)
            stack.enter_context(self.plane)
            signing = self.plane.client_authority
            flags = [
                "--allocate-node-cidrs",
                f"--cluster-cidr={node_addons.POD_NETWORK}",
                f"--cluster-signing-cert-file={signing.bundle}",
                f"--cluster-signing-key-file={signing.key_file()}",
                f"--root-ca-file={self.plane.ca_bundle}",
            ]
            stack.enter_context(ControllerManager(self.plane, more=_CONTROLLERS, flags=flags))
            self._start_scheduler(stack)
            kubeconfig = self.plane.admin_kubeconfig()
            self.kubectl = stack.enter_context(Kubectl(kubeconfig, NAMESPACE))
            self._apply_addons()
            with ThreadPoolExecutor() as pool:
                list(pool.map(Node.start, self.nodes.values()))
            self.until(lambda: len(self.ready()) == len(self.nodes), what="all nodes are Ready")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # ── what is set up ──

    def _start_scheduler(self, stack: ExitStack) -> None:
        kubeconfig = self.plane.admin_kubeconfig()
        scheduler = Daemon(
            [
                str(programs.kube_scheduler()),
                *(f"--{it}={kubeconfig}" for it in ("kubeconfig", "authentication-kubeconfig")),
                f"--authorization-kubeconfig={kubeconfig}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            log=self.plane.folder / "kube-scheduler.log",
            guardian=self.plane.guardian,
        )
        scheduler.start()
        stack.callback(scheduler.stop, signal.SIGTERM, timeout=STOP_TIMEOUT)

    def _apply_addons(self) -> None:
        """As a cluster has them before it hears of relays."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-flannel"}}
        # kubeadm's: a node's own requests for certificates are approved.
        renewal = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "kubeadm:node-autoapprove-certificate-rotation"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": "system:nodes",
                }
            ],
        }
        self.apply(
            [namespace, renewal, node_addons.coredns_role(), *self._flannel(), *self._proxy()]
        )

    def _flannel(self) -> list[Json]:
        return node_addons.flannel()

    def _proxy(self) -> list[Json]:
        return node_addons.kube_proxy(server=self.plane.server, more=_PROXY)

    def install_relays(self) -> None:
        """As docs/how-to/nodes.md has it: `node install --now` on each node, label, overlay, second
        DaemonSets, patches of the first."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.install, self.relayed))
        for name in RELAYED:
            self.kubectl.run("label", "node", name, f"{LABEL}=").expect()
        self.apply(overlay("node"))
        for folder in self.write_seconds():
            self.apply(kustomize(folder))
        patch = MANIFESTS / "overlays/node/other-nodes.yaml"
        for namespace, name in (("kube-system", "kube-proxy"), ("kube-flannel", "kube-flannel-ds")):
            self.kubectl.run(
                "patch", "daemonset", name, f"--namespace={namespace}", f"--patch-file={patch}"
            ).expect()
        # Pods that get their address before have no reservation.
        for namespace, name in (
            ("kube-system", "coredns-node"),
            ("kube-system", "kube-proxy-relay"),
            ("kube-flannel", "kube-flannel-relay"),
        ):
            self.rolled_out(namespace, f"daemonset/{name}")

    def write_seconds(self) -> list[Path]:
        """Folders, each with the kustomization of a second DaemonSet, for nodes with a relay."""
        return [
            self._write_second("kube-proxy", self._proxy()),
            self._write_second("kube-flannel", self._flannel()),
        ]

    def _write_second(self, name: str, objects: list[Json], *more: str) -> Path:
        """`more`: components of overlays/node."""
        components = [f"../overlays/node/{it}" for it in (name, *more)]
        return write_kustomization(self._folder / name, objects, components=components)

    def lead_proxy_and_dns(self, *, has_view: bool) -> None:
        """kube-proxy and CoreDNS of nodes with a relay: to its endpoint view, or to itself."""
        more = ["endpoint-view"] if has_view else []
        self.apply(kustomize(self._write_second("kube-proxy", self._proxy(), *more)))
        folder = self._folder / "dns"
        components = [f"../overlays/node/{it}" for it in more]
        made = write_kustomization(folder, list(overlay("node")), components=components)
        self.apply(kustomize(made))
        daemons = ("daemonset/kube-proxy-relay", "daemonset/coredns-node")
        # Versions of the view are its own: who comes from there, or goes there, lists again.
        self.kubectl.run("rollout", "restart", *daemons, "--namespace=kube-system").expect()
        for it in daemons:
            self.rolled_out("kube-system", it)

    def install(self, node: Node, *, keeps_secrets: bool = True, flags: Sequence[str] = ()) -> None:
        """`flags`: more of the relay's."""
        command = self.install_command(node, keeps_secrets=keeps_secrets, flags=flags)
        node.run(*command).expect()

    def install_command(
        self, node: Node, *, keeps_secrets: bool = True, flags: Sequence[str] = ()
    ) -> list[str]:
        """As `install`, which runs it."""
        if node.run("test", "-e", KEY_FILE).status:
            node.write({KEY_FILE: (os.urandom(32), 0o600)})
        return [
            *(RELAY, "node", "install", "--now", "--fresh", f"--pod-listen={POD_LISTEN}"),
            f"--client-ca-file={CLIENT_CA}",
            *([f"--keep-secrets={KEY_FILE}"] if keeps_secrets else []),
            *(["--", *flags] if flags else []),
        ]

    def apply_workloads(self) -> None:
        """Returns when all is there and answers."""
        self.apply(workloads.objects())
        wanted = 2 * len(self.nodes) + 1
        self.until(lambda: len(self.pods()) == wanted and not self.faults(), what="workloads")

    @contextmanager
    def more(self, objects: Sequence[Json], *, pods: Iterable[str]) -> Iterator[None]:
        """Begins once the `pods` among the objects answer, too; deletes all of it in the end."""
        wanted = set(pods)
        self.apply(objects)
        try:
            self.until(lambda: wanted <= self.pods().keys() and not self.faults(), what="more pods")
            yield
        finally:
            self.delete(objects)
            self.until(lambda: not wanted & self.pods().keys(), what="fewer pods")

    def scale(self, deployment: str, replicas: int) -> None:
        """Returns when all answer."""
        self.kubectl.run("scale", "deployment", deployment, f"--replicas={replicas}").expect()
        wanted = len(self.nodes) + 1 + replicas
        self.until(lambda: len(self.pods()) == wanted and not self.faults(), what="all pods")

    def start_plain_dns(self) -> None:
        """CoreDNS as on the other nodes, but that it asks the API server itself."""
        made = copy.deepcopy(list(overlay("node")))
        configuration = named(made, "ConfigMap", "coredns-node")
        corefile = configuration["data"]["Corefile"]
        configuration["data"]["Corefile"] = re.sub(r"\n *kubeconfig .*", "", corefile)
        daemons = named(made, "DaemonSet", "coredns-node")
        spec = daemons["spec"]["template"]["spec"]
        spec["nodeSelector"] = {"kubernetes.io/hostname": PLAIN}
        spec["volumes"] = [{"name": "configuration", "configMap": {"name": "coredns-plain"}}]
        [container] = spec["containers"]
        container["volumeMounts"] = [
            it for it in container["volumeMounts"] if it["name"] == "configuration"
        ]
        for it in (configuration, daemons):
            it["metadata"]["name"] = "coredns-plain"
        for labels in (
            daemons["spec"]["selector"]["matchLabels"],
            daemons["spec"]["template"]["metadata"]["labels"],
        ):
            labels["app"] = "coredns-plain"
        self.nodes[PLAIN].run("ip", "address", "replace", f"{DNS_ADDRESS}/32", "dev", "lo").expect()
        self.apply([configuration, daemons])
        self.rolled_out("kube-system", "daemonset/coredns-plain")

    def rolled_out(self, namespace: str, workload: str) -> None:
        """Returns when all pods of it are ready."""
        self.kubectl.run(
            *("rollout", "status", workload, f"--namespace={namespace}"),
            f"--timeout={PATIENCE:.0f}s",
            timeout=PATIENCE,
        ).expect()

    def apply(self, objects: Iterable[Json]) -> None:
        """Those of no namespace first."""
        for items in _by_namespace(objects):
            self._send("apply", "--server-side", "--force-conflicts", items=items)

    def delete(self, objects: Iterable[Json]) -> None:
        """Those of no namespace last."""
        for items in reversed(_by_namespace(objects)):
            self._send("delete", "--ignore-not-found", items=items)

    def _send(self, *command: str, items: list[Json]) -> None:
        """`items`: of one namespace, or of none."""
        namespace = items[0]["metadata"].get("namespace", "")
        self.kubectl.run(
            *(*command, "-f", "-", *([f"--namespace={namespace}"] if namespace else [])),
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
            timeout=PATIENCE,
        ).expect()

    # ── what befalls it ──

    @contextmanager
    def cut(self, *names: str) -> Iterator[None]:
        """Begins once the relays there have noticed; ends with the heal."""
        nodes = [self.nodes[name] for name in names]
        with ExitStack() as stack:
            for node in nodes:
                node.cut()
                stack.callback(node.heal)
            self.until(
                lambda: all(not node.status()["link"]["isUp"] for node in nodes),
                what="the relays notice",
            )
            yield

    def reboot(self, *names: str, until: Callable[[], Any]) -> float:
        """All of them lose power at once; seconds from when it is back until that is so."""
        nodes = [self.nodes[name] for name in names]
        with ThreadPoolExecutor() as pool:
            list(pool.map(Node.lose_power, nodes))
            started = time.monotonic()
            list(pool.map(Node.power_on, nodes))
        self.until(until, what="all is back")
        return time.monotonic() - started

    def until_doctor_finds_nothing(self, name: str) -> None:
        """Of the node, by `relay-sidecar node doctor`: a reboot would find everything."""
        found = ""

        def nothing() -> bool:
            nonlocal found
            done = self.nodes[name].relay("node", "doctor")
            found = done.output
            return done.status == 0

        try:
            self.until(nothing, what="node doctor finds nothing")
        except AssertionError as error:
            raise AssertionError(f"{found}\n{error}") from None

    # ── what is seen ──

    def ready(self) -> set[str]:
        """Nodes, as the control plane has them."""
        found = expect(self.plane.admin.get("/api/v1/nodes"))["items"]
        return {
            it["metadata"]["name"]
            for it in found
            for each in it["status"].get("conditions", ())
            if (each["type"], each["status"]) == ("Ready", "True")
        }

    def renewed(self, name: str) -> str:
        """When the node's Lease was renewed last, by the node's own clock."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        found: str = expect(self.plane.admin.get(path))["spec"]["renewTime"]
        return found

    def pods(self) -> dict[str, PodFacts]:
        """Of the workloads."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return workloads.pods(expect(self.plane.admin.get(path))["items"])

    def is_up_to_date(self) -> bool:
        """The control plane has learned what runs now: each container of the workloads, ready, and
        named by its Services. What a node keeps when it is cut off then is the truth."""
        namespace = f"namespaces/{NAMESPACE}"
        pods = expect(self.plane.admin.get(f"/api/v1/{namespace}/pods"))["items"]
        path = f"/apis/discovery.k8s.io/v1/{namespace}/endpointslices"
        slices = expect(self.plane.admin.get(path))["items"]
        running = {f"containerd://{it}" for ids in self.containers().values() for it in ids}
        containers = [it for pod in pods for it in pod["status"].get("containerStatuses", ())]
        endpoints = [it for each in slices for it in each["endpoints"] or ()]
        return (
            all(it["ready"] and it["containerID"] in running for it in containers)
            and all(it["conditions"]["ready"] for it in endpoints)
            and self.are_ready(workloads.pods(pods))
        )

    def are_ready(self, wanted: Mapping[str, PodFacts]) -> bool:
        """These very pods, and no others."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        found = {
            it["metadata"]["uid"]
            for it in expect(self.plane.admin.get(path))["items"]
            for each in it["status"].get("conditions", ())
            if (each["type"], each["status"]) == ("Ready", "True")
        }
        return found == {it.uid for it in wanted.values()}

    def containers(self) -> dict[str, set[str]]:
        """The ids of those that run, by node: another id is a restart."""
        return {name: node.containers() for name, node in self.nodes.items()}

    def faults(
        self,
        wanted: Iterable[PodFacts] | None = None,
        *,
        asked: Sequence[str] | None = None,
        timeout: float = workloads.PATIENT,
    ) -> list[str]:
        """Of the pods `wanted` (those that there are) and the Services, from each of the nodes."""
        addresses = {name: node.address for name, node in self.nodes.items()}
        return workloads.faults(
            list(self.pods().values() if wanted is None else wanted),
            addresses,
            asked=list(self.nodes) if asked is None else asked,
            timeout=timeout,
        )

    def are_back(self, wanted: Collection[PodFacts]) -> bool:
        """Pods of RELAYED, and the Services there; to be asked again and again, for the moment in
        which it is so."""
        return not self.faults(wanted, asked=RELAYED, timeout=workloads.IMPATIENT)

    def given(self, node: str) -> tuple[str, str]:
        """The password and the colour that the pod of `web` on a node has."""
        files = workloads.ask(self.nodes[node].address, workloads.LOCAL_NODE_PORT)["files"]
        return files["secret/password"], files["settings/colour"]

    def token_of(self, pod: PodFacts) -> str:
        """Which its volume has now."""
        found = workloads.fetch(self.nodes[pod.node].address, f"http://{pod.address}:8080/")
        assert isinstance(found, dict), found
        token: str = found["files"]["token/token"]
        return token

    def seconds_until(self, is_so: Callable[[], Any]) -> float:
        """Fails where it takes longer than PATIENCE."""
        started = time.monotonic()
        self.until(is_so, what="what is measured")
        return time.monotonic() - started

    def holds(self, is_so: Callable[[], Any], *, seconds: float) -> None:
        """Asks again and again, for so long; fails where it is not so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert is_so(), self.told()
            time.sleep(POLL_INTERVAL)

    def until(
        self,
        is_so: Callable[[], Any],
        *,
        what: str,
        timeout: float = PATIENCE,
        every: float = POLL_INTERVAL,
    ) -> Any:
        """The first answer that is true; fails with what was waited for."""
        deadline = time.monotonic() + timeout
        while not (found := is_so()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s: {what}\n{self.told()}")
            time.sleep(every)
        return found

    def told(self) -> str:
        """What there is to see, for the message of a failure."""
        wide = self.kubectl.run("get", "pods", "--all-namespaces", "-o", "wide").output
        parts = [wide, self.kubectl.run("get", "nodes", "-o", "wide").output]
        for node in self.nodes.values():
            for unit, count in (("relay-sidecar", "60"), ("kubelet", "10"), ("containerd", "5")):
                lines = node.journal(unit, "-n", count)
                parts.append(f"── {node.name} {unit}\n{lines}")
        return "\n".join(parts)


def _by_namespace(objects: Iterable[Json]) -> list[list[Json]]:
    """Those of none first."""
    found: dict[str, list[Json]] = {"": []}
    for it in objects:
        found.setdefault(it["metadata"].get("namespace", ""), []).append(it)
    return [items for items in found.values() if items]
