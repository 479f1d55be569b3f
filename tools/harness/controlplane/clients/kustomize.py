"""What `kubectl kustomize` makes of a folder, with the kubectl that tests build.

Guarantees: nothing is downloaded; a folder that cannot be built raises kubectl's own words.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tools.harness.controlplane.fixtures import require_program

Json = dict[str, Any]
# Seconds on a busy machine; a quiet one needs a tenth of one.
TIMEOUT = 60.0


class NotBuilt(Exception):
    """kubectl refused; the message is what it printed."""


def kustomize(folder: Path) -> list[Json]:
    """The objects, in their order. Raises `NotBuilt`."""
    text = kustomize_text(folder, kubectl=require_program("kubectl"))
    # libyaml's parser: CRDs are long.
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def kustomize_text(folder: Path, *, kubectl: str) -> str:
    """As it is printed. Raises `NotBuilt`."""
    command = [kubectl, "kustomize", str(folder)]
    # It ends before it would have to collect garbage.
    environ = {**os.environ, "GOGC": "off"}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if done.returncode:
        raise NotBuilt(done.stderr)
    return done.stdout
