"""Helm, which renders and installs the charts of a release: the one in PATH where its minor version
fits, else built from its Go module, once for all checkouts.

Guarantees: nothing of the developer's configuration, cache or cluster is read. Runs as
`python3 -m tools.harness.peers.helm` and prints the path.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from tools.harness.controlplane.build import BuildError, Program, find_program, program_binary

_MODULE = "helm.sh/helm/v4"
HELM = Program("helm", _MODULE, "v4.3.1", f"{_MODULE}/cmd/helm")
# Seconds for one command, on a busy machine.
TIMEOUT = 120.0


def helm_binary() -> Path:
    """Its path. Raises BuildError."""
    return find_program(HELM) or program_binary(HELM)


class Helm:
    """Commands against one server, or with `kubeconfig` None against none."""

    def __init__(self, kubeconfig: Path | None = None) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="helm-")
        # Where there is no such file, Helm would look for a cluster at localhost.
        self._environ = {
            "PATH": os.defpath,
            "HOME": self._home.name,
            "KUBECONFIG": str(kubeconfig or "/dev/null"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._home.cleanup()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """One command to its end."""
        return subprocess.run(
            [str(helm_binary()), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            env=self._environ,
        )


def main() -> int:
    try:
        print(helm_binary())
    except BuildError as error:
        print(f"helm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
