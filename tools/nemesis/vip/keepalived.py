"""keepalived with the shipped configuration, as a process in a node's network namespace.

Owns a folder that only root may write, as keepalived demands of scripts that it runs as root.
What the test sets are the parameters, and nothing else. Guarantee: `stop` leaves no process.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tools.harness.controlplane.guardian import Guardian

SHIPPED = Path(__file__).parents[3] / "manifests" / "keepalived"
# keepalived(8): with a configuration that it will not run, and with a script that it may not.
STOP_TIMEOUT = 10.0
# A folder with a path of root's own; /tmp is everybody's.
ROOT_FOLDER = "/run"


def parameters(values: Mapping[str, str]) -> str:
    """The shipped parameters.conf, with these in place of its examples."""
    lines = []
    left = dict(values)
    for line in (SHIPPED / "parameters.conf").read_text(encoding="utf-8").splitlines():
        name = line.partition("=")[0].removeprefix("$")
        lines.append(f"${name}={left.pop(name)}" if name in left else line)
    if left:
        raise ValueError(f"parameters.conf has no {sorted(left)}")
    return "\n".join([*lines, ""])


class Keepalived:
    """`inside`: what brings a command into the node's network; `values` as in parameters.conf."""

    def __init__(
        self, inside: Sequence[str], values: Mapping[str, str], *, guardian: Guardian | None = None
    ) -> None:
        self._inside = list(inside)
        self._guardian = guardian
        self.folder = Path(tempfile.mkdtemp(prefix="edge-sidecars-vip-", dir=ROOT_FOLDER))
        self.folder.chmod(0o755)
        self.checker = self.folder / "check-leader"
        shutil.copy(SHIPPED / "check-leader", self.checker)
        shutil.copy(SHIPPED / "keepalived.conf", self.folder)
        self.configure({**values, "CHECK_LEADER": str(self.checker)})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def configure(self, values: Mapping[str, str]) -> None:
        text = parameters(values)
        (self.folder / "parameters.conf").write_text(text, encoding="utf-8")

    @property
    def command(self) -> list[str]:
        files = {"--use-file": "keepalived.conf", "--pid": "pid", "--vrrp_pid": "vrrp.pid"}
        words = [word for flag, name in files.items() for word in (flag, str(self.folder / name))]
        return [*self._inside, "keepalived", *words]

    def test(self) -> subprocess.CompletedProcess[str]:
        """What systemd and the container ask before they start it."""
        return subprocess.run(
            [*self.command, "--config-test"], capture_output=True, text=True, check=False
        )

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "--dont-fork", "--log-console", "--log-detail", "--vrrp"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if self._guardian is not None:
            self._guardian.watch(self._process.pid)

    def log_text(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def signal(self, number: int) -> None:
        """To all of it: the parent, the child that speaks VRRP, its scripts."""
        assert self._process is not None
        for pid in _session(self._process.pid):
            # Its checks come and go.
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to all of it at once: nobody is left to clean up."""
        assert self._process is not None
        self.freeze()
        self.signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """In order; the address goes with it."""
        if self._process is None or self._process.poll() is not None:
            return
        self.thaw()
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()


def _session(leader: int) -> list[int]:
    """The process ids of a session, in which only keepalived and what it started are."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            if os.getsid(int(entry.name)) == leader:
                found.append(int(entry.name))
        except ProcessLookupError:
            continue  # has ended since
    return found
