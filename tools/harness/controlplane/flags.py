"""The command lines of etcd and kube-apiserver, as the tests need them.

Guarantees: all that a client can see is as in a cluster: admission, API Priority and Fairness,
watch cache, bookmarks and defaults of limits are untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.harness.controlplane.access.service_account import ISSUER
from tools.harness.controlplane.reservation import LOOPBACK


def etcd_flags(folder: Path, client_port: int, peer_port: int) -> Sequence[str]:
    """A single member without TLS, reachable on loopback only."""
    client = f"http://{LOOPBACK}:{client_port}"
    peer = f"http://{LOOPBACK}:{peer_port}"
    return [
        "--name=test",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        # Nobody cuts the power of a temporary folder, and syncing would make slow disks count.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_flags(folder: Path, host: str, port: int, etcd_port: int) -> Sequence[str]:
    """A server of the files that `ControlPlane` lays out in the folder, at the address `host`."""
    signing_key = folder / "service-account.key"
    return [
        f"--bind-address={host}",
        # Else the address of a network interface, and a machine may have none.
        f"--advertise-address={host}",
        f"--secure-port={port}",
        f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
        f"--tls-cert-file={folder / 'serving.crt'}",
        f"--tls-private-key-file={folder / 'serving.key'}",
        f"--client-ca-file={folder / 'client-ca.crt'}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-signing-key-file={signing_key}",
        f"--service-account-key-file={signing_key}",
        f"--audit-policy-file={folder / 'audit-policy.json'}",
        f"--audit-log-path={folder / 'audit.log'}",
        # Written before the answer is sent, so that who has an answer finds it in the log.
        "--audit-log-mode=blocking",
        # Megabytes before the file would be renamed: more than any run writes.
        "--audit-log-maxsize=100000",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        "--event-ttl=1h",
        "--profiling=false",
    ]


# Pods reach no loopback address, hence the API server refuses to publish its own: it ends.
_UNPUBLISHED = "--endpoint-reconciler-type=none"


def flags_without_nodes() -> Sequence[str]:
    """On top of `apiserver_flags`."""
    return [
        "--authorization-mode=RBAC",
        # Else a token that looks like a pod's lives for a year, whatever was asked for.
        "--service-account-extend-token-expiration=false",
        _UNPUBLISHED,
    ]


def flags_with_nodes(folder: Path, host: str) -> Sequence[str]:
    """On top of `apiserver_flags`, as kubeadm has them: what nodes are held to, how the API server
    asks kubelets, and pods find it."""
    return [
        *([_UNPUBLISHED] if host == LOOPBACK else []),
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={folder / 'kubelet-client.crt'}",
        f"--kubelet-client-key={folder / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
    ]
