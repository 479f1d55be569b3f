"""What speaks for a node of a pool: kubelet by its certificate, a pod by its token."""

import ssl
from http import HTTPStatus

from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.pools.controller import NAMESPACE


def node_tls(plane: ControlPlane, name: str) -> ssl.SSLContext:
    """With the certificate that a kubelet has."""
    files = plane.client_authority.issue_client(
        f"node-{name}", user=f"system:node:{name}", group="system:nodes"
    )
    context = ssl.create_default_context(cafile=str(plane.ca_bundle))
    context.load_cert_chain(files.certificate, files.key)
    return context


def node_client(plane: ControlPlane, name: str) -> AdminClient:
    return AdminClient(plane.host, plane.port, node_tls(plane, name))


def token_of_pod(plane: ControlPlane, account: str, node: str) -> str:
    """As kubelet projects it, with the node's name among its claims."""
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    name = f"{account}-{node}"
    spec = {
        "nodeName": node,
        "serviceAccountName": account,
        "containers": [{"name": "main", "image": "example.com/x:1"}],
        # As both DaemonSets: it outlives its node, and so does the token.
        "tolerations": [{"operator": "Exists"}],
    }
    answer = plane.admin.post(pods, {"metadata": {"name": name}, "spec": spec})
    if answer[0] != HTTPStatus.CONFLICT:
        expect(answer)
    uid = expect(plane.admin.get(f"{pods}/{name}"))["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    answer = plane.admin.post(path, {**body, "spec": {"boundObjectRef": bound}})
    token: str = expect(answer)["status"]["token"]
    return token
