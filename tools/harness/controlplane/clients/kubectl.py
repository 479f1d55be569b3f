"""`kubectl apply` by an administrator, with the kubectl that tests build.

Guarantees: what is applied is strictly what the API server knows; nothing is written outside of the
control plane's folder; a refusal raises kubectl's own words.
"""

import subprocess
from pathlib import Path

from tools.harness.controlplane import build
from tools.harness.controlplane.cluster import ControlPlane

# Seconds on a busy machine; a quiet one needs two.
TIMEOUT = 120.0


class NotApplied(Exception):
    """kubectl refused; the message is what it printed."""


def apply(plane: ControlPlane, folder: Path, *, namespace: str | None = None) -> None:
    """A kustomization; `namespace`: of all its objects, where these name none. Raises
    `NotApplied`."""
    where = [] if namespace is None else ["--namespace", namespace]
    done = subprocess.run(
        [
            *(str(build.binary("kubectl")), "apply", "--server-side", "--validate=strict"),
            *("-k", str(folder), *where),
        ],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(plane.folder),
            "KUBECONFIG": str(plane.admin_kubeconfig()),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise NotApplied(done.stderr)
