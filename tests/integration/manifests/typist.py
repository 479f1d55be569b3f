"""Who types what the documents say into a shell, where kubectl leads to a control plane.

Guarantees: it ends at the first command that fails, and the test with it; no warning is overlooked
but those that the test names.
"""

import os
import re
import subprocess
from pathlib import Path

from tests.unit.repository.checkout import ROOT
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program

# Seconds on a busy machine.
TIMEOUT = 120.0


class Typist:
    """`folder` is where commands are typed; `edge-sidecars` there is `checkout`."""

    def __init__(self, plane: ControlPlane, folder: Path, *, checkout: Path = ROOT) -> None:
        self._plane = plane
        self._folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(require_program("kubectl"))
        (folder / "edge-sidecars").symlink_to(checkout)

    def type(self, script: str, *, warning: str = "no warning") -> str:
        """`warning`: a regular expression, of those that may come."""
        done = subprocess.run(
            ["bash", "-c", f"set -e\n{script}"],
            cwd=self._folder,
            env={
                "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self._folder),
                "KUBECONFIG": str(self._plane.admin_kubeconfig()),
            },
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        warnings = [it for it in done.stderr.splitlines() if "Warning" in it]
        assert all(re.search(warning, it) for it in warnings), done.stderr
        return done.stdout
