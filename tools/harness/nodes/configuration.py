"""The configuration of a node's kubelet and containerd, as kubeadm and the packages write it.

The node's certificate and key are in one file.
"""

import json

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.nodes.images import PAUSE

DNS_ADDRESS = "169.254.20.11"
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
CLIENT_CA = "/etc/kubernetes/pki/ca.crt"
CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
_CONTAINERD = f"""version = 3
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
"""
_CONTAINERD_UNIT = """[Unit]
Description=containerd
[Service]
Type=notify
ExecStart=/usr/local/bin/containerd
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""
# As Kubernetes' packages have it.
_KUBELET_UNIT = """[Unit]
Description=kubelet
Wants=containerd.service
After=containerd.service
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/local/bin/kubelet --config=/etc/kubernetes/kubelet.json \
    --kubeconfig=/etc/kubernetes/kubelet.conf --hostname-override={name} --node-ip={address}
Restart=always
RestartSec=10
KillMode=process
[Install]
WantedBy=multi-user.target
"""


def configuration(
    plane: ControlPlane, name: str, address: str, *, server: str | None = None
) -> dict[str, tuple[bytes, int]]:
    """Contents and modes by path. `server`: another way to the API server than `plane.server`."""
    files = plane.client_authority.issue_client(
        name, user=f"system:node:{name}", group="system:nodes"
    )
    certificate = files.certificate.read_bytes() + files.key.read_bytes()
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "default",
                "cluster": {
                    "server": server or plane.server,
                    "certificate-authority": "/etc/kubernetes/pki/server-ca.crt",
                },
            }
        ],
        "users": [
            {
                "name": "default",
                "user": {"client-certificate": CERTIFICATE, "client-key": CERTIFICATE},
            }
        ],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": CLIENT_CA},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "rotateCertificates": True,
        # A minute by default: how soon volumes show what has changed.
        "syncFrequency": "10s",
        # Of this machine, not of Kubernetes: version 1 of cgroups, no right to OOM scores, a disk
        # that others fill.
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
    }
    return {
        KUBECONFIG: (json.dumps(kubeconfig, indent=1).encode(), 0o600),
        CLIENT_CA: (plane.client_authority.bundle.read_bytes(), 0o644),
        "/etc/kubernetes/pki/server-ca.crt": (plane.ca_bundle.read_bytes(), 0o644),
        "/etc/kubernetes/kubelet.json": (json.dumps(kubelet).encode(), 0o644),
        CERTIFICATE: (certificate, 0o600),
        "/etc/containerd/config.toml": (_CONTAINERD.encode(), 0o644),
        "/etc/systemd/system/containerd.service": (_CONTAINERD_UNIT.encode(), 0o644),
        "/etc/systemd/system/kubelet.service": (
            _KUBELET_UNIT.format(name=name, address=address).encode(),
            0o644,
        ),
    }
