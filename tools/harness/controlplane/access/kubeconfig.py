"""Kubeconfig files of a test control plane.

Guarantees: a file contains all that it needs (no paths into other files) and is readable by
its owner only. It is JSON, which every reader of kubeconfigs takes, since JSON is YAML.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tools.harness.controlplane.access.certificates import CertificateFiles


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    ca: bytes | None,
    credentials: CertificateFiles | str,
    namespace: str = "default",
) -> Path:
    """Writes a kubeconfig with one context; `credentials` are a client certificate or a token,
    `ca` is None for a server without TLS."""
    if isinstance(credentials, str):
        user = {"token": credentials}
    else:
        user = {
            "client-certificate-data": _base64(credentials.certificate.read_bytes()),
            "client-key-data": _base64(credentials.key.read_bytes()),
        }
    cluster = {"server": server}
    if ca is not None:
        cluster["certificate-authority-data"] = _base64(ca)
    context = {"cluster": "test", "user": "test", "namespace": namespace}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    return path


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
