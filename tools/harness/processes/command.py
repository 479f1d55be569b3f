"""Short commands of our programs, each in a process of its own, to its end.

They are forked (`forks`); with another PYTHONPATH a command is started anew, as it imports other
modules.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.harness.processes.forks import Fork, can_fork

# Seconds; on a busy machine.
TIMEOUT = 60.0


def run(
    *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command of the elector."""
    return run_program(
        "elector-sidecar", *arguments, environ={"PATH": "/usr/bin:/bin", **(environ or {})}
    )


def run_program(
    program: str, *arguments: str, environ: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One of forks.PACKAGES. Raises subprocess.TimeoutExpired."""
    command = [str(Path(sys.executable).parent / program), *arguments]
    if not can_fork(program, environ):
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            env=environ,
            cwd=cwd,
        )
    with tempfile.TemporaryDirectory(prefix="command-") as folder:
        stdout, stderr = (Path(folder, name) for name in ("stdout", "stderr"))
        process = Fork(program, arguments, environ=environ, stdout=stdout, stderr=stderr, cwd=cwd)
        try:
            status = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        told, errors = (path.read_text(encoding="utf-8") for path in (stdout, stderr))
        return subprocess.CompletedProcess(command, status, told, errors)
