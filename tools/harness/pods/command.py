"""One short command of the sidecar, in an environment of its own."""

import subprocess
import sys
from collections.abc import Mapping


def run(
    *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """To its end, which is soon."""
    return subprocess.run(
        [sys.executable, "-m", "elector_sidecar", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", **(environ or {})},
    )
