"""`elector-sidecar run … -- PROGRAM` as real processes, judged by what the programs write.

P1 for programs that cannot be changed: none of the processes of one pod works after the first line
of another pod's, whatever is killed, frozen or cut.
"""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from elector_sidecar.wrapped.guard import descendants, send
from tests.unit.repository.checkout import block
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import FAST, FAST_DURATION, STEADY, Fleet, kubeconfig
from tools.harness.pods.wrapped.pod import WORK, beats
from tools.harness.processes.process import installed

# Until a process has started or a Lease was taken on a busy machine.
TIMEOUT = 30.0
# Seconds that a pod which was frozen as a whole may still work for: on a busy machine. On a quiet
# one the kill takes a few milliseconds; the contract has 50.
AFTER_THAW = 0.5


class Wrapper:
    """One candidate for the Lease of `fleet`, with a link of its own to the API server."""

    def __init__(
        self,
        fleet: Fleet,
        folder: Path,
        name: str,
        *mode: str,
        flags: tuple[str, ...],
        terminal: int | None = None,
    ) -> None:
        self._idle = fleet.add(start=False)
        self.link = fleet.link(self._idle)
        account = fleet.plane.service_account_dir(fleet.namespace, "elector", ELECTOR_RULES)
        self.lines = folder / f"{name}.lines"
        self.log = folder / f"{name}.log"
        command = [sys.executable, "-m", "elector_sidecar", "run", "--lease", fleet.lease]
        command += ["--namespace", fleet.namespace, "--identity", name, "--server", self.link.url]
        command += ["--service-account-dir", str(account.path), *flags, "--"]
        command += [sys.executable, "-I", "-S", str(WORK), str(self.lines), *mode]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stderr=log,
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                start_new_session=terminal is not None,
                preexec_fn=None if terminal is None else _take_terminal,
            )

    def stop(self) -> None:
        """All that is left of it."""
        below = descendants(self.process.pid)
        for pid in (self.process.pid, *below, *self.workers):
            send(pid, signal.SIGKILL)
        self.process.wait()

    @property
    def guard(self) -> int:
        """Its process."""
        (pid,) = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, check=True, text=True
        ).stdout.split()
        return int(pid)

    @property
    def beats(self) -> list[tuple[float, int]]:
        """Boot time and process of each line of work."""
        lines = self.lines.read_text().splitlines() if self.lines.exists() else []
        return [(it.at, it.pid) for it in beats(lines)]

    @property
    def workers(self) -> set[int]:
        return {pid for _, pid in self.beats}

    @property
    def was_asked_to_end(self) -> bool:
        return "term" in self.lines.read_text().splitlines()

    def wait(self) -> int:
        """The exit status."""
        return self.process.wait(timeout=TIMEOUT)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def await_work(one: Wrapper, *, workers: int = 3) -> None:
    deadline = time.monotonic() + TIMEOUT
    while len(one.workers) < workers:
        assert time.monotonic() < deadline, one.log.read_text()
        time.sleep(0.02)


class Scene:
    """A pod at work and one that waits, on a Lease of their own."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *mode: str,
        flags: tuple[str, ...] = (),
        timing: tuple[str, ...] = FAST,
    ) -> None:
        self._stack = ExitStack()
        self.fleet = self._stack.enter_context(Fleet(plane, plane.create_namespace()))
        self.fleet.create_empty_lease()
        self.old, self.new = (
            self._wrapper(folder, "old", *mode, flags=(*timing, *flags)),
            None,
        )
        await_work(self.old)
        self.new = self._wrapper(folder, "new", flags=timing)

    def _wrapper(self, folder: Path, name: str, *mode: str, flags: tuple[str, ...]) -> Wrapper:
        it = Wrapper(self.fleet, folder, name, *mode, flags=flags)
        self._stack.callback(it.stop)
        return it

    def close(self) -> None:
        self._stack.close()

    def judge(self, *, after: float = 0.0) -> None:
        """The new one works, and the old one has not since; `after`: a line up to so much later
        counts for before."""
        assert self.new is not None
        await_work(self.new)
        time.sleep(0.5)
        first = min(at for at, _ in self.new.beats)
        last = max(at for at, _ in self.old.beats)
        assert last <= first + after, f"{last - first:.3f} s at work together"
        assert not alive(self.old.workers)


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists() and not _is_zombie(pid)}


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def scene(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    with ExitStack() as stack:

        def begin(*mode: str, flags: tuple[str, ...] = (), timing: tuple[str, ...] = FAST) -> Scene:
            it = Scene(control_plane, tmp_path, *mode, flags=flags, timing=timing)
            stack.callback(it.close)
            return it

        yield begin


Begin = Callable[..., Scene]


def test_killed_wrapper_its_program_is_asked_to_end_and_is_dead_before_the_next(
    scene: Begin,
) -> None:
    it = scene("deaf")
    os.kill(it.old.process.pid, signal.SIGKILL)
    it.judge()
    assert it.old.was_asked_to_end


def test_killed_guard_nothing_of_its_program_outlives_it(scene: Begin) -> None:
    it = scene("deaf", timing=STEADY)
    os.kill(it.old.guard, signal.SIGKILL)
    assert it.old.wait() == 128 + signal.SIGKILL
    it.judge()  # released: the next one did not wait for the Lease to expire


def test_frozen_wrapper_its_program_is_killed_by_the_guard(scene: Begin) -> None:
    it = scene("deaf")
    os.kill(it.old.process.pid, signal.SIGSTOP)
    it.judge()
    os.kill(it.old.process.pid, signal.SIGCONT)
    assert it.old.wait() == 75


def test_frozen_guard_its_program_is_killed_by_the_wrapper(scene: Begin) -> None:
    it = scene("deaf")
    os.kill(it.old.guard, signal.SIGSTOP)
    it.old.link.black_hole()
    it.judge()
    assert it.old.process.poll() is not None or it.old.wait() == 75


def test_frozen_pod_that_thaws_works_no_longer_than_the_kill_takes(scene: Begin) -> None:
    it = scene("deaf")
    pids = [it.old.process.pid, *descendants(it.old.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert it.new is not None
    await_work(it.new)
    thawed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    for pid in reversed(pids):  # the program first, its guard later: the worst order
        os.kill(pid, signal.SIGCONT)
    time.sleep(1.0)
    late = [at for at, _ in it.old.beats if at > thawed_at]
    assert not late or max(late) - thawed_at <= AFTER_THAW
    assert not alive(it.old.workers)


def test_cut_off_the_program_is_asked_to_end_and_the_wrapper_says_that_the_lead_was_lost(
    scene: Begin,
) -> None:
    it = scene()
    it.old.link.black_hole()
    it.judge()
    assert it.old.was_asked_to_end
    assert it.old.wait() == 75
    assert "the lead is in doubt" in it.old.log.read_text()


def test_terminated_the_program_ends_in_order_and_its_status_is_passed_on(scene: Begin) -> None:
    it = scene(timing=STEADY)
    os.kill(it.old.process.pid, signal.SIGTERM)
    assert it.old.wait() == 7
    it.judge()


def test_terminated_a_program_that_is_deaf_is_killed_after_the_drain_timeout(scene: Begin) -> None:
    it = scene("deaf", flags=("--drain-timeout", "1s"), timing=STEADY)
    os.kill(it.old.process.pid, signal.SIGTERM)
    assert it.old.wait() == 128 + signal.SIGKILL
    it.judge()
    assert "the Lease is released" in it.old.log.read_text()


def test_program_that_ends_by_itself_ends_the_wrapper_with_its_status(scene: Begin) -> None:
    it = scene("ends", "5", "1.0", timing=STEADY)
    assert it.old.wait() == 5
    it.judge()


def test_with_restart_the_pod_contends_again(scene: Begin) -> None:
    it = scene("ends", "5", "1.0", flags=("--restart",), timing=STEADY)
    it.judge()  # the one that waited had its turn
    assert it.new is not None
    os.kill(it.new.process.pid, signal.SIGTERM)
    before = len(it.old.workers)
    await_work(it.old, workers=before + 3)
    assert it.old.process.poll() is None


def test_stolen_lease_the_program_is_killed_at_once(scene: Begin) -> None:
    it = scene("deaf", timing=STEADY)
    it.fleet.edit(spec={"holderIdentity": "administrator"})
    deadline = time.monotonic() + FAST_DURATION
    while alive(it.old.workers):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
def test_other_signals_are_for_the_program(
    control_plane: ControlPlane, tmp_path: Path, number: signal.Signals
) -> None:
    with Fleet(control_plane, control_plane.create_namespace()) as fleet:
        fleet.create_empty_lease()
        one = Wrapper(fleet, tmp_path, "one", flags=STEADY)
        try:
            await_work(one)
            os.kill(one.process.pid, number)
            assert one.wait() == 128 + number
        finally:
            one.stop()


def test_at_a_terminal_the_program_has_its_keys_once(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Ctrl-C is the program's, which ends by it; the Lease is released."""
    with Fleet(control_plane, control_plane.create_namespace()) as fleet:
        fleet.create_empty_lease()
        ours, theirs = pty.openpty()
        one = Wrapper(fleet, tmp_path, "one", flags=STEADY, terminal=theirs)
        try:
            await_work(one)
            os.write(ours, b"\x03")
            assert one.wait() == 128 + signal.SIGINT
            assert not one.was_asked_to_end
            assert not alive(one.workers)
            assert "the Lease is released" in one.log.read_text()
        finally:
            one.stop()
            os.close(ours)
            os.close(theirs)


def test_a_program_is_run_as_the_manual_says(control_plane: ControlPlane, tmp_path: Path) -> None:
    line = block("docs/how-to/run-a-program.md", "Start it", "sh").strip()
    with Fleet(control_plane, control_plane.create_namespace(), lease="nightly-backup") as fleet:
        fleet.create_empty_lease()
        script = tmp_path / "backup.sh"
        script.write_text("#!/bin/sh\necho $1 $ELECTOR_LEASE $ELECTOR_FENCING_TOKEN\nexit 3\n")
        script.chmod(0o755)
        program, _, arguments = line.partition(" ")
        done = subprocess.run(
            [
                *(str(installed(program)), *arguments.partition(" --namespace ops")[0].split()),
                *("--namespace", fleet.namespace),
                *arguments.partition(" --namespace ops")[2].split(),
            ],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={"KUBECONFIG": str(kubeconfig(control_plane, fleet.namespace)), "PATH": os.defpath},
            text=True,
            timeout=TIMEOUT,
        )
    mode, lease, token = done.stdout.split()
    assert (mode, lease, done.returncode) == ("/data", "nightly-backup", 3)
    assert int(token) > 0
