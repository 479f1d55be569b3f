"""`node install` and `node uninstall` on a node with systemd, step by step.

Order of an installation: record, files of the relay, the relay started and asked what kubelet asks;
only then what kubelet, the pods' network and a reboot find. Guarantees: what fails before the end,
or is cut short by a signal, is taken back at once; what is killed, by the next `install` or
`uninstall`; kubelet is started anew then where it may have seen the change.
"""

import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from edge_sidecars.runtime.cli.values import BadInput
from relay_node.file_state import FileChange, write_whole
from relay_node.installer.attempt import FOLDER, Attempt
from relay_node.installer.installation import LEFTOVER, Installation, failed
from relay_node.installer.systemd import units
from relay_node.installer.systemd.services import InstallationFailed, Services

KUBELET: Final = "kubelet.service"
# All that an installation starts.
UNITS: Final = (units.RELAY, f"{units.SNAPSHOT}.path", f"{units.IPAM_GC}.timer")
# Seconds in which a kubelet that cannot use its configuration has ended.
KUBELET_TRIAL: Final = 3.0
# kubelet's kubeconfig by way of the relay, until kubelet itself has it; in the data directory.
TRIAL_KUBECONFIG: Final = FOLDER / "trial.conf"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class _Interrupted(BaseException):
    """By a signal."""


class Steps:
    """`data_dir`: as in `installation`."""

    def __init__(self, installation: Installation, data_dir: Path, services: Services) -> None:
        self._installation = installation
        self._data_dir = installation.on_node(data_dir)
        self._services = services

    @property
    def trial_kubeconfig(self) -> Path:
        """Where it is while a trial runs."""
        return self._data_dir / TRIAL_KUBECONFIG

    # ── install ──

    def install(
        self,
        changes: Sequence[FileChange],
        late: frozenset[Path],
        *,
        trial: Callable[[], None],
        trial_kubeconfig: bytes,
        options: Mapping[str, Any],
        address: str,
        restarts_kubelet: bool,
    ) -> list[FileChange]:
        """Returns what was changed. `late`: paths that are changed once `trial` has returned;
        `address`: of --pod-listen, "" without. Raises `BadInput` and `InstallationFailed`, with
        everything as it was."""
        pending = self._installation.pending(changes)
        with _signals_raise():
            attempt = self._installation.begin(pending)
            try:
                self._note(attempt, address)
                self._start_relay(attempt, pending, late, trial, trial_kubeconfig)
                attempt.apply(it for it in pending if it.path in late)
                self._services.run("daemon-reload")
                self._start_others(changes)
                if restarts_kubelet:
                    self._restart_kubelet(attempt)
                record = self._installation.record_of(changes, attempt, options)
                attempt.commit(record)
            except BaseException as error:
                raise self._taken_back(attempt, error) from error
        (self._data_dir / LEFTOVER).unlink(missing_ok=True)
        return pending

    def _note(self, attempt: Attempt, address: str) -> None:
        was = {unit: self._services.is_active(unit) for unit in (*UNITS, KUBELET)}
        is_new = bool(address) and not has_address(address)
        attempt.note(was_active=was, address=address if is_new else "", kubelet_restarted=False)

    def _start_relay(
        self,
        attempt: Attempt,
        pending: Sequence[FileChange],
        late: frozenset[Path],
        trial: Callable[[], None],
        kubeconfig: bytes,
    ) -> None:
        attempt.apply(it for it in pending if it.path not in late)
        write_whole(self.trial_kubeconfig, kubeconfig, mode=0o600)
        self._services.run("daemon-reload")
        # Its counter of starts tells whether it comes up.
        self._services.try_run("reset-failed", units.RELAY)
        # The one of before is not to answer for the new one.
        if attempt.facts["was_active"][units.RELAY]:
            self._services.run("stop", units.RELAY)
        self._services.run("start", "--no-block", units.RELAY)
        trial()
        self.trial_kubeconfig.unlink()

    def _start_others(self, changes: Sequence[FileChange]) -> None:
        there = {change.path.name for change in changes if change.path.parent == units.FOLDER}
        for unit in UNITS[1:]:
            if unit in there:
                self._services.run("restart", unit)
            else:
                self._services.try_run("stop", unit)

    def _restart_kubelet(self, attempt: Attempt) -> None:
        attempt.note(kubelet_restarted=True)
        self._services.run("restart", KUBELET)
        if not self._services.stays_active(KUBELET, seconds=KUBELET_TRIAL):
            raise InstallationFailed(
                "kubelet does not stay up behind the relay: see `journalctl -u kubelet`"
            )

    def _taken_back(self, attempt: Attempt, error: BaseException) -> BaseException:
        """What is raised in the end."""
        left = self.take_back(attempt)
        end = f"not all is as it was: {left}" if left else "everything is as it was"
        if isinstance(error, OSError):
            error = failed(error)
        if isinstance(error, _Interrupted):
            error = InstallationFailed(f"interrupted by {error}")
        if isinstance(error, BadInput | InstallationFailed):
            return type(error)(f"{str(error).removesuffix('; nothing is changed')}; {end}")
        return error

    # ── take back ──

    def take_back(self, attempt: Attempt) -> str:
        """What is not as it was, "" where all is; can be called again."""
        facts = attempt.facts
        try:
            attempt.put_files_back()
        except OSError as error:
            return f"{error.filename}: {error.strerror}; {_AGAIN}"
        was = facts.get("was_active", {})
        lacks = [self._services.try_run("daemon-reload")]
        if facts.get("kubelet_restarted"):
            verb = "restart" if was.get(KUBELET, True) else "stop"
            lacks.append(self._services.try_run(verb, KUBELET))
        for unit in UNITS if was else ():
            verb = "restart" if was.get(unit) else "stop"
            why = self._services.try_run(verb, unit)
            # A unit that was not there before cannot be stopped once its file is gone.
            lacks.append(why if was.get(unit) else "")
            if not was.get(unit):
                self._services.try_run("reset-failed", unit)
        if facts.get("address"):
            remove_address(facts["address"])
        lack = "; ".join(filter(None, lacks))
        if lack:
            return f"{lack}; {_AGAIN}"
        self.trial_kubeconfig.unlink(missing_ok=True)
        attempt.end()
        return ""

    def recover(self) -> bool:
        """Takes back an installation that was cut short; False where there is none. Raises
        `BadInput`, `InstallationFailed`."""
        attempt = self._installation.interrupted()
        if attempt is None:
            return False
        left = self.take_back(attempt)
        if left:
            raise InstallationFailed(left)
        return True


_AGAIN: Final = "run `relay-sidecar node uninstall --now`"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One at a time. Raises `BadInput`."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(
            f"{folder}: {error.strerror}; relay-sidecar node is for nodes with systemd"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                "another `relay-sidecar node` changes this node: wait until it has ended"
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _signals_raise() -> Iterator[None]:
    def interrupt(number: int, _: FrameType | None) -> None:
        for each in _SIGNALS:
            # What is taken back is not interrupted.
            signal.signal(each, signal.SIG_IGN)
        raise _Interrupted(signal.Signals(number).name)

    before = {each: signal.signal(each, interrupt) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def has_address(host: str) -> bool:
    """Whether loopback has it."""
    return f" {host}/" in _ip("-oneline", "address", "show", "dev", "lo")


def remove_address(host: str) -> None:
    _ip("address", "delete", f"{host}/{128 if ':' in host else 32}", "dev", "lo")


def _ip(*command: str) -> str:
    """Its output, "" where it fails: a node without it has no such address from us."""
    try:
        done = subprocess.run(
            ["ip", *command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
