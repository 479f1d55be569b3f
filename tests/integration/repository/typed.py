"""The commands of a document, typed into one shell, as a reader does who follows it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.unit.repository.checkout import ROOT, blocks
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.reservation import Reservation

# Seconds on a busy machine; a quiet one needs 15, the job of Sedna 50, the site 150.
TIMEOUT = 400.0
PROGRAMS = Path(sys.executable).parent


def laid_out(folder: Path) -> Path:
    """The folder, made to look as a checkout does to the tutorials."""
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").symlink_to(require_program("kubectl"))
    (folder / ".venv").symlink_to(PROGRAMS.parent)
    for name in ("examples", "manifests"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def typed(
    name: str,
    titles: Sequence[str],
    folder: Path,
    *,
    network: Sequence[str] = (),
    timeout: float = TIMEOUT,
) -> str:
    """What the commands of a document print; they end at the first that fails, and everything that
    they started ends with them. On free ports, unless `network`, a command that becomes a shell,
    gives them a network of their own."""
    script = "\n".join(text for title in titles for text in blocks(name, title, "sh"))
    ports = [] if network else sorted(set(re.findall(r"127\.0\.0\.1:(105\d\d)", script)))
    held = {port: Reservation() for port in ports}
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    environ = {"HOME": str(folder), "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": cache}
    environ |= {it: os.environ[it] for it in ("DOCKER_HOST",) if it in os.environ}
    environ["PATH"] = f"{folder / 'bin'}:{PROGRAMS}:{os.environ['PATH']}"
    # Also where it is the number of a port alone.
    script = re.sub(
        r"\b105\d\d\b", lambda it: str(held[it[0]].port) if it[0] in held else it[0], script
    )
    # Where no flag names them.
    for name, port in (("RELAY_LISTEN", "10550"), ("RELAY_STATUS_LISTEN", "10551")):
        if port in held:
            environ[name] = f"127.0.0.1:{held[port].port}"
    process = subprocess.Popen(
        [*network, "bash", "-c", f"set -e\n{script}\nwait"],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for reservation in held.values():
            reservation.release()
    assert process.returncode == 0, f"{output}\n{errors}"
    assert "Traceback" not in errors, errors
    return output
