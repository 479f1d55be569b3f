"""Half a day of a node's requests at once: its kubelet's Events, and what other clients read by
name, all through its relay.
"""

import json
from typing import Any

from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.configuration import CERTIFICATE
from tools.harness.nodes.node import Node

EVENTS, OBJECTS = 4_200, 500
_NAMESPACE = "noise"
# Of a node: argv has the events, the objects, the token that may read these, the event's body.
_SCRIPT = f"""
import http.client, json, ssl, sys
events, objects, token, body = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
def connect(*pair):
    context = ssl.create_default_context(cafile="/var/lib/relay-sidecar/public/ca.crt")
    if pair:
        context.load_cert_chain(*pair)
    return http.client.HTTPSConnection("127.0.0.1", 10550, context=context, timeout=30)
def ask(connection, method, path, wanted, body=None, **headers):
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status == wanted, (path, answer.status, said)
path = "/api/v1/namespaces/{_NAMESPACE}"
kubelet = connect("{CERTIFICATE}", "{CERTIFICATE}")
for number in range(events):
    text = body.replace("NUMBER", str(number))
    ask(kubelet, "POST", path + "/events", 201, text, **{{"Content-Type": "application/json"}})
other = connect()
for number in range(objects):
    each = f"{{path}}/configmaps/it-{{number}}"
    ask(other, "GET", each, 200, Authorization="Bearer " + token)
"""


def spend_half_a_day(cluster: NodeCluster) -> None:
    """Through each relay."""
    plane = cluster.plane
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}])
    cluster.apply(_config_map(number) for number in range(OBJECTS))
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    plane.kubeconfig_for(_NAMESPACE, "reader", rules)
    token = plane.new_token(_NAMESPACE, "reader")
    for node in cluster.relayed:
        _spend(node, token)


def _spend(node: Node, token: str) -> None:
    arguments = (str(EVENTS), str(OBJECTS), token, json.dumps(_event(node.name)))
    node.run("python3", "-c", _SCRIPT, *arguments).expect()


def _event(node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{node}.", "namespace": _NAMESPACE},
        "involvedObject": {"kind": "Pod", "namespace": _NAMESPACE, "name": "one"},
        "reason": "Noise",
        "message": "number NUMBER of half a day",
        "type": "Normal",
        "source": {"component": "kubelet", "host": node},
    }


def _config_map(number: int) -> dict[str, Any]:
    metadata = {"name": f"it-{number}", "namespace": _NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * 500}}
