"""What is asked of systemd: units started and stopped, their state, the last line of their log.

systemctl(1), journalctl(1). Guarantee: each call has a limit of time.
"""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput

# Seconds; of one call. A start fails by itself after 90 (systemd-system.conf(5),
# DefaultTimeoutStartSec=); uninstalling is to be over in ten seconds.
PATIENCE: Final = 100.0
IMPATIENCE: Final = 8.0
_ENVIRON: Final = Path("/proc")


class InstallationFailed(Exception):
    """What was asked for is right, and the node does not do it: one line, with the remedy."""


class Services:
    """`timeout`, in seconds, of one call."""

    def __init__(self, *, timeout: float = PATIENCE) -> None:
        self._timeout = timeout

    def run(self, *command: str) -> str:
        """Its output. Raises `InstallationFailed`; `BadInput` where there is no systemctl."""
        try:
            done = subprocess.run(
                ["systemctl", *command],
                check=True,
                timeout=self._timeout,
                capture_output=True,
                text=True,
                errors="replace",
            )
        except FileNotFoundError as error:
            raise BadInput(
                "systemctl is missing: a node without systemd starts the relay before kubelet by "
                "other means (docs/reference/relay-access.md, on a node)"
            ) from error
        except (OSError, subprocess.SubprocessError) as error:
            why = " ".join(str(getattr(error, "stderr", "") or error).split())
            raise InstallationFailed(f"systemctl {' '.join(command)}: {why}") from error
        return done.stdout

    def try_run(self, *command: str) -> str:
        """Why it failed; "" where it did not."""
        try:
            self.run(*command)
        except (InstallationFailed, BadInput) as error:
            return str(error)
        return ""

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Raises as `run`; what systemd does not say is missing."""
        told = self.run("show", f"--property={','.join(properties)}", unit)
        pairs = (line.partition("=") for line in told.splitlines())
        return {name: value for name, equals, value in pairs if equals}

    def is_active(self, unit: str) -> bool:
        """Raises as `run`."""
        state = self.show(unit, "ActiveState").get("ActiveState")
        return state in ("active", "activating", "reloading")

    def last_line(self, unit: str, *, since: float) -> str:
        """Of what the processes of a unit logged, "" where nothing is known. `since`: Unix time."""
        command = ["journalctl", "-q", "-o", "cat", "-n", "1", f"--since=@{int(since)}"]
        try:
            done = subprocess.run(
                [*command, f"_SYSTEMD_UNIT={unit}"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=IMPATIENCE,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return " ".join(done.stdout.split())

    def environ(self, unit: str) -> Mapping[str, str]:
        """Of its main process; where it does not run, what its unit sets. Raises as `run`."""
        told = self.show(unit, "MainPID", "Environment")
        pid = told.get("MainPID", "")
        if pid.isdecimal() and int(pid) > 0:
            try:
                content = (_ENVIRON / pid / "environ").read_text(errors="replace")
                return _pairs(content.split("\0"))
            except OSError:
                pass
        return _pairs(told.get("Environment", "").split())

    def config_file(self, unit: str) -> Path | None:
        """kubelet's --config, of its main process."""
        pid = self.show(unit, "MainPID").get("MainPID", "")
        try:
            words = (_ENVIRON / (pid or "0") / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            return None
        for word, following in zip(words, [*words[1:], ""], strict=True):
            if word.startswith("--config="):
                return Path(word.removeprefix("--config="))
            if word == "--config":
                return Path(following)
        return None

    def stays_active(self, unit: str, *, seconds: float) -> bool:
        """Whether its main process is the same one all that time; not, where it ends at once."""
        deadline = time.monotonic() + seconds
        first = self.show(unit, "ActiveState", "MainPID")
        while True:
            found = self.show(unit, "ActiveState", "MainPID")
            if found != first or found.get("ActiveState", "active") != "active":
                return False
            if time.monotonic() >= deadline:
                return True
            time.sleep(0.2)


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = (word.strip("\"'").partition("=") for word in words)
    return {name: value for name, equals, value in pairs if equals}
