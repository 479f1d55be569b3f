"""Our programs as processes forked from one that has imported all of them.

A fresh interpreter imports for a third of a second of processor time; a fork takes hundredths.
Arguments, environment, folder, streams and session of a forked process are its own. Commands are
always forked; a long-lived process is forked only in a run of tests that called `allow`, as it
shares memory that a benchmark would count.
"""

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

# The package whose `__main__` each program starts.
PACKAGES = {
    "elector-sidecar": "elector_sidecar",
    "relay-sidecar": "relay_sidecar",
    "pool-sidecar": "pool_sidecar",
    "sedna-gm": "gm",
    "sedna-lc": "lc",
}
# What they import when they start.
_PARTS = ("__main__", "app", "member_app", "controller_app", "config")
# Read by libraries as they are loaded, by the kernel's loader or by the interpreter.
_EARLY = ("PYTHON", "LD_", "GRPC_", "OPENSSL_", "FAKETIME")
_FORKS = multiprocessing.get_context("forkserver")
# What is not there is left out. aiohttp is imported first, as the programs do it.
_FORKS.set_forkserver_preload(
    [
        "tools.harness.processes.forked_imports",
        *(f"{package}.{part}" for package in PACKAGES.values() for part in _PARTS),
        "tools.harness.processes.forks",
    ]
)


def _network() -> str:
    """The namespace of this thread (network_namespaces(7))."""
    return os.readlink("/proc/thread-self/ns/net")


_HOME = _network()
_allowed = False


def allow() -> None:
    """From now on long-lived processes are forked, too."""
    global _allowed
    _allowed = True


def are_allowed() -> bool:
    return _allowed


def can_fork(program: str, environ: Mapping[str, str]) -> bool:
    """Whether a fork behaves as a fresh interpreter would with this environment, and where this
    thread is: the one that forks is in the network in which the tests began."""
    is_early = any(name.startswith(_EARLY) for name in environ)
    return program in PACKAGES and not is_early and _network() == _HOME


class Running(Protocol):
    """What `subprocess.Popen` and `Fork` have in common."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Fork:
    """A forked program, with the methods of `subprocess.Popen`."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        environ: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        cwd: Path | None = None,
        is_session: bool = False,
    ) -> None:
        """Appends to the files; `is_session`: it leads a session of its own."""
        self.args = [str(Path(sys.executable).parent / program), *arguments]
        streams = (stdout, stderr)
        # A daemon: it ends with the run of tests.
        self._process = _FORKS.Process(
            target=_become,
            args=(program, self.args, dict(environ), cwd or Path.cwd(), streams, is_session),
            daemon=True,
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become(
    program: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    streams: Sequence[Path],
    is_session: bool,
) -> None:
    if is_session:
        os.setsid()
    for number, path in enumerate(streams, start=1):
        with path.open("ab") as opened:
            os.dup2(opened.fileno(), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = list(command)
    sys.exit(importlib.import_module(f"{PACKAGES[program]}.__main__").main())
