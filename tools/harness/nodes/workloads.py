"""What runs on the nodes under test, and whether all of it is there: pods with what they were
given, Services, NodePorts, names, and the way from one node to another.
"""

import http.client
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from tools.harness.controlplane.clients.answer import exchange
from tools.harness.nodes.images import WORKLOAD

Json = dict[str, Any]

# Nodes with a relay and DNS, and the one without.
RELAYED, PLAIN = ("edge-1", "edge-2"), "edge-3"
NAMESPACE = "shop"
LABEL = "edge-sidecars.io/relay"
# Of the Service with all pods of `web`, and of the one with those of the asked node only.
NODE_PORT, LOCAL_NODE_PORT = 30080, 30081
PORT = 8080
FILES = "/files"
SERVICES = ("web", "desk", f"store-0.store.{NAMESPACE}.svc.cluster.local")
# Seconds for an answer: of a node that is busy, and where the moment counts in which all is back.
# A connection that began before that tries again only after a second.
PATIENT, IMPATIENT = 2.0, 0.6
# Of that the pod that asks for us waits itself.
_SHARE = 0.75
# Of three endpoints each is found, but for once in 5,000 times.
QUESTIONS = 24
# Of a Secret; what is searched for on disks.
PASSWORD = "correct-horse-battery-staple-7193"
TOKEN_LIFE = 600


@dataclass(frozen=True)
class PodFacts:
    """What must be the same after a reboot."""

    name: str
    uid: str
    node: str
    address: str
    restarts: int


def objects() -> list[Json]:
    """To be applied together."""
    return [
        _object("Namespace", NAMESPACE, namespace=None),
        _object("Secret", "db", stringData={"password": PASSWORD}),
        _object("ConfigMap", "settings", data={"colour": "green"}),
        _workload("DaemonSet", "web"),
        _workload("Deployment", "desk", replicas=len(RELAYED) + 1),
        _workload("StatefulSet", "store", replicas=1, serviceName="store"),
        _service("web"),
        _service("desk"),
        _service("store", clusterIP="None"),
        _service("web", name="web-node", type="NodePort", node_port=NODE_PORT),
        _service(
            "web",
            name="web-local",
            type="NodePort",
            node_port=LOCAL_NODE_PORT,
            externalTrafficPolicy="Local",
        ),
    ]


def service(app: str, *, name: str, **more: Any) -> Json:
    """One more, of the pods of a workload."""
    return _service(app, name=name, **more)


def pod(name: str, *, node: str, volumes: Sequence[Json] = ()) -> Json:
    """One more, which no scheduler places; `volumes` are mounted beside its files."""
    spec = _pod_spec()
    spec["volumes"] += volumes
    [container] = spec["containers"]
    container["volumeMounts"] += [
        {"name": it["name"], "mountPath": f"/{it['name']}"} for it in volumes
    ]
    return _object("Pod", name, spec={"nodeName": node, **spec})


def pods(found: Iterable[Json]) -> dict[str, PodFacts]:
    """By name; without those that have no address yet."""
    return {
        it["metadata"]["name"]: PodFacts(
            it["metadata"]["name"],
            it["metadata"]["uid"],
            it["spec"]["nodeName"],
            it["status"]["podIP"],
            sum(each["restartCount"] for each in it["status"].get("containerStatuses", ())),
        )
        for it in found
        if it["status"].get("podIP") and "deletionTimestamp" not in it["metadata"]
    }


def on(found: dict[str, PodFacts], node: str, app: str) -> PodFacts:
    """The pod of a workload on a node."""
    return next(it for it in found.values() if it.node == node and it.name.startswith(f"{app}-"))


def faults(
    wanted: Collection[PodFacts],
    nodes: dict[str, str],
    *,
    asked: Sequence[str],
    timeout: float = PATIENT,
) -> list[str]:
    """What is not as it must be, asked from within each of the nodes `asked`; `nodes`: addresses by
    name. `wanted` are the pods that must be there, on whatever node. Names are asked for on the
    nodes that have DNS of their own. All is asked at once, with `timeout` seconds for each."""
    questions = [(name, question) for name in asked for question in _questions(wanted, name)]
    with ThreadPoolExecutor(max_workers=len(questions)) as pool:
        found = [
            (name, pool.submit(question, Asker(nodes[name], timeout)))
            for name, question in questions
        ]
        return [f"{name}: {said}" for name, future in found if (said := future.result())]


@dataclass(frozen=True)
class Asker:
    """Asks from within the node with that address."""

    address: str
    timeout: float

    def ask(self, port: int) -> Json | str:
        return _ask(self.address, port, "/", self.timeout)

    def fetch(self, url: str) -> Json | str:
        return fetch(self.address, url, timeout=self.timeout)


def _questions(wanted: Collection[PodFacts], name: str) -> Iterator[Callable[[Asker], str]]:
    """Each answers with what is wrong. The local NodePort leads to the pod of `web` there, which
    asks all others for us."""
    yield partial(ask_local, name)
    yield _ask_any
    for pod in wanted:
        yield partial(ask_pod, pod)
    for service in () if name == PLAIN else SERVICES:
        yield partial(_ask_service, service)


def ask_local(name: str, node: Asker) -> str:
    found = node.ask(LOCAL_NODE_PORT)
    if isinstance(found, str):
        return f"local NodePort: {found}"
    return "" if found["node"] == name else f"local NodePort: leads to {found['node']}"


def _ask_any(node: Asker) -> str:
    found = node.ask(NODE_PORT)
    return f"NodePort: {found}" if isinstance(found, str) else ""


def ask_pod(pod: PodFacts, node: Asker) -> str:
    found = node.fetch(f"http://{pod.address}:{PORT}/")
    why = found if isinstance(found, str) else _wrong(found, pod)
    return f"{pod.name} on {pod.node} at {pod.address}: {why}" if why else ""


def _ask_service(service: str, node: Asker) -> str:
    found = node.fetch(f"http://{service}:{PORT}/")
    return f"Service {service}: {found}" if isinstance(found, str) else ""


def _wrong(found: Json, pod: PodFacts) -> str:
    if found["pod"] != pod.name or pod.address not in found["addresses"]:
        return f"it is {found['pod']} with {found['addresses']}"
    given = found["files"]
    if given.get("secret/password") != PASSWORD:
        return "no Secret"
    if given.get("settings/colour") != "green":
        return "no ConfigMap"
    return "" if given.get("token/token") else "no token"


def answering(node_address: str, service: str) -> set[str]:
    """The nodes whose pods answer for a Service that is asked often from within that node; or why
    none does."""
    url = f"http://{service}:{PORT}/"
    with ThreadPoolExecutor(max_workers=QUESTIONS) as pool:
        found = pool.map(lambda _: fetch(node_address, url), range(QUESTIONS))
        return {it if isinstance(it, str) else it["node"] for it in found}


def end(node_address: str, pod: PodFacts) -> None:
    """Makes the container of a pod end, with status 1."""
    fetch(node_address, f"http://{pod.address}:{PORT}/end")


def ask(host: str, port: int) -> Json:
    """What a pod says of itself."""
    found = _ask(host, port, "/", PATIENT)
    assert isinstance(found, dict), found
    return found


def fetch(node_address: str, url: str, *, timeout: float = PATIENT) -> Json | str:
    """What a server answers to the pod of `web` on that node; or why it does not."""
    path = f"/fetch?timeout={_SHARE * timeout:.3f}s&url={quote(url, safe='')}"
    return _ask(node_address, LOCAL_NODE_PORT, path, timeout)


def _ask(host: str, port: int, path: str, timeout: float) -> Json | str:
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        answer = exchange(connection, path, method="GET")
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    if answer.status != http.HTTPStatus.OK:
        return f"{answer.status} {answer.body.decode(errors='replace').strip()}"
    found: Json = json.loads(answer.body)
    return found


# ── objects ──


def _object(kind: str, name: str, *, namespace: str | None = NAMESPACE, **rest: Any) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest}


def _service(
    app: str, *, name: str | None = None, node_port: int | None = None, **more: Any
) -> Json:
    port: Json = {"port": PORT}
    if node_port is not None:
        port["nodePort"] = node_port
    spec = {"selector": {"app": app}, "ports": [port], **more}
    return _object("Service", name or app, spec=spec)


def _workload(kind: str, name: str, **more: Any) -> Json:
    labels = {"app": name}
    spec = _pod_spec()
    if kind == "StatefulSet":
        spec["nodeSelector"] = {LABEL: ""}
    if kind != "DaemonSet":
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
        spec["tolerations"] = [
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
            }
        ]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **more,
        },
    }


def _pod_spec() -> Json:
    token = {"path": "token", "expirationSeconds": TOKEN_LIFE, "audience": "vault"}
    return {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": WORKLOAD,
                "imagePullPolicy": "IfNotPresent",
                "env": [
                    {"name": "FILES", "value": FILES},
                    _field("POD_NAME", "metadata.name"),
                    _field("NODE_NAME", "spec.nodeName"),
                    {
                        "name": "PASSWORD",
                        "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}},
                    },
                ],
                "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1},
                "volumeMounts": [{"name": "files", "mountPath": FILES, "readOnly": True}],
            }
        ],
        "volumes": [
            {
                "name": "files",
                "projected": {
                    "sources": [
                        {"secret": {"name": "db", "items": [_item("password", "secret")]}},
                        {"configMap": {"name": "settings", "items": [_item("colour", "settings")]}},
                        {"serviceAccountToken": token | {"path": "token/token"}},
                    ]
                },
            }
        ],
    }


def _item(key: str, folder: str) -> Json:
    return {"key": key, "path": f"{folder}/{key}"}


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
