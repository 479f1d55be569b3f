"""What `kubectl kustomize`, or kustomize itself, makes of a folder.

Guarantees: nothing is downloaded; a folder that cannot be built raises the program's own words.
"""

import os
import subprocess
from pathlib import Path

# Seconds on a busy machine; a quiet one needs a tenth of one.
TIMEOUT = 60.0


class NotBuilt(Exception):
    """The program refused; the message is what it printed."""


def kustomize_text(folder: Path, *, kubectl: str) -> str:
    """As it is printed; `kubectl` is the path of either program. Raises `NotBuilt`."""
    word = "build" if Path(kubectl).name == "kustomize" else "kustomize"
    command = [kubectl, word, str(folder)]
    # It ends before it would have to collect garbage.
    environ = {**os.environ, "GOGC": "off"}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if done.returncode:
        raise NotBuilt(done.stderr)
    return done.stdout
