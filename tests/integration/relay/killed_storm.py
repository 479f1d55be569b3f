"""A process that writes as fast as it can, killed at some moment; what it said until then."""

import signal
import subprocess
import sys
import time
from pathlib import Path


def storm(module: str, directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """`module` of this folder, writing in a directory."""
    command = [sys.executable, "-m", f"tests.integration.relay.{module}", str(directory)]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)


def stormed(module: str, directory: Path, *arguments: str, seconds: float) -> list[list[str]]:
    """Kills a storm so long after its first line; the words of each line that it said."""
    with storm(module, directory, *arguments) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            lines.append(process.stdout.readline())
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    # The last line may have been cut off with the process.
    return [line.split() for line in lines if line.endswith("\n")]
