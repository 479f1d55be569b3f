"""A relay on a node: with the node's certificate, a link that a test may cut, two listeners, and
what kubelet and pods ask there.
"""

import datetime
import os
import secrets
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from relay_node.installer.authority import ensure_serving
from relay_node.installer.installation import PUBLIC_CA, SERVING
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.certificates import CertificateFiles
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller

NODE, OTHER = "system:node:edge-1", "system:node:edge-2"
GROUP = "system:nodes"


class NodePlace:
    """`life`, in seconds, of the node's certificate, which is of `user`."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        life: float = 3600.0,
        user: str = NODE,
        flags: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.plane = plane
        self.link = FaultProxy(plane.port)
        self.signer = plane.client_authority
        validity = datetime.timedelta(seconds=life)
        self.pair = self.signer.issue_client(
            unique("own"), user=user, group=GROUP, validity=validity
        )
        # As kubelet keeps it: both in one file, replaced as a whole.
        self.file = folder / "kubelet-client-current.pem"
        self.show(self.pair)
        node_dir = folder / "node"
        ensure_serving(node_dir, [], now=datetime.datetime.now(datetime.UTC))
        serving = CertificateFiles(node_dir / SERVING, node_dir / SERVING)
        self.ca = node_dir / PUBLIC_CA
        self.pods = Reservation()
        self.relay = RelayProcess(
            [
                f"--server={self.link.url}",
                f"--client-certificate={self.file}",
                f"--certificate-authority={plane.ca_bundle}",
                "--access=caller",
                f"--client-ca-file={self.signer.bundle}",
                f"--pod-listen={LOOPBACK}:{self.pods.port}",
                "--probe-interval=300ms",
                "--log-refusals",
                *flags,
            ],
            serving=serving,
            environ=environ,
        )

    def __enter__(self) -> "NodePlace":
        self.link.start()
        self.relay.start()
        self.relay.wait_link(up=True)
        return self

    def __exit__(self, *_: object) -> None:
        text = self.relay.log_text(all_lives=True)
        self.relay.stop()
        self.link.stop()
        self.pods.release()
        assert "Traceback" not in text, text

    def show(self, pair: CertificateFiles) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes())
        fresh.chmod(0o600)
        fresh.rename(self.file)

    def caller(
        self, pair: CertificateFiles | None = None, token: str = "", *, pods: bool = False
    ) -> Caller:
        context = ssl.create_default_context(cafile=str(self.ca))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        port = self.pods.port if pods else self.relay.port
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return Caller(f"https://{LOOPBACK}:{port}", context=context, headers=headers)

    def cut(self) -> None:
        self.link.refuse()
        self.relay.wait_link(up=False)


def unique(what: str) -> str:
    return f"{what}-{secrets.token_hex(4)}"


def allow_nodes(plane: ControlPlane) -> None:
    """Nodes may do all here: the node authorizer is not on."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subjects = [{"kind": "Group", "name": GROUP, "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": unique("nodes")}, "subjects": subjects, "roleRef": role}
    expect(plane.admin.post(f"{rbac}/clusterrolebindings", binding))


def write_key(path: Path) -> Path:
    """Of --keep-secrets: a new one."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(os.urandom(32))
    return path
