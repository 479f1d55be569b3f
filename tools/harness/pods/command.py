"""Short commands of our programs, each in a process of its own, to its end.

They are forked from one process that has imported the programs: a command takes hundredths of a
second, a fresh interpreter a third of one. A command's arguments, environment, folder and streams
are its own. With another PYTHONPATH a command is started anew, as it imports other modules.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# The package whose `__main__` each program starts.
PACKAGES = {
    "elector-sidecar": "elector_sidecar",
    "relay-sidecar": "relay_sidecar",
    "pool-sidecar": "pool_sidecar",
    "sedna-gm": "gm",
    "sedna-lc": "lc",
}
# What they import when they start.
_PARTS = ("__main__", "app", "member_app", "config")
# Seconds; on a busy machine.
TIMEOUT = 60.0
_FORKS = multiprocessing.get_context("forkserver")
# What is not there is left out.
_FORKS.set_forkserver_preload(
    [f"{package}.{part}" for package in PACKAGES.values() for part in _PARTS]
)


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
    """One of PACKAGES. Raises subprocess.TimeoutExpired."""
    command = [str(Path(sys.executable).parent / program), *arguments]
    if "PYTHONPATH" in environ:
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
        streams = [Path(folder, name) for name in ("stdout", "stderr")]
        process = _FORKS.Process(
            target=_become, args=(program, command, dict(environ), cwd or Path.cwd(), streams)
        )
        process.start()
        process.join(TIMEOUT)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, TIMEOUT)
        told, errors = (path.read_text(encoding="utf-8") for path in streams)
        return subprocess.CompletedProcess(command, process.exitcode, told, errors)


def _become(
    program: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    streams: Sequence[Path],
) -> None:
    for number, path in enumerate(streams, start=1):
        with path.open("wb") as opened:
            os.dup2(opened.fileno(), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = list(command)
    sys.exit(importlib.import_module(f"{PACKAGES[program]}.__main__").main())
