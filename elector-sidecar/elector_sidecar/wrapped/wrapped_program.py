"""A program that cannot be changed, run only while this candidate leads.

Shell. Guarantee (P1): the program and its descendants are dead before the Lease can be another
candidate's, by a deadline that is shared with the guard, a process beside this one. SIGTERM comes
earlier: at `stop_before` seconds before the deadline, or when the lead is given up in order. Then
the Lease is renewed until the program has ended.

    waiting ──leads──► running ──ended by itself──► resign, or end with its status
                          │ held for less than `stop_before`: SIGTERM
                          │ drained: SIGTERM, after the drain's time-out SIGKILL
                          └ at the deadline, or when another holder is seen: SIGKILL
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from elector_sidecar.elector import Elector
from elector_sidecar.wrapped.guard import adopt_orphans, descendants, kill_below, send

# The exit status without --restart when the lead was lost; EX_TEMPFAIL of sysexits.h.
LOST = 75
# Of a program that cannot be started, as a shell has it.
CANNOT_START = 127
# As a shell: 128 and the number of the signal that ended the program.
BY_SIGNAL = 128
# Seconds before the deadline at which this process kills what a frozen guard did not.
KILL_BEFORE = 0.05
# Seconds between two looks at the Lease, which is renewed without any announcement.
POLL = 0.5
# Seconds until this pod contends again after its program ended, doubling up to the longest; from
# the first again once a program ran for the longest.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
_GUARD = Path(__file__).with_name("guard.py")
# What else a terminal or a supervisor sends to the wrapper, which is for the program.
PASSED_ON = (
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGCONT,
)


@dataclass(frozen=True)
class WrapPolicy:
    """`stop_before`: seconds of validity that are left when the program is asked to end;
    `restart`: contend again after the program's end."""

    program: Sequence[str]
    stop_before: float
    restart: bool


class GuardedProgram:
    """One run of the program, from its start to its end with all its descendants."""

    def __init__(self, program: Sequence[str], environ: Mapping[str, str], *, deadline: float):
        """Raises `OSError`. `deadline`: CLOCK_BOOTTIME, as in `prolong`."""
        ours, theirs = socket.socketpair()
        self._is_at_terminal = os.isatty(0)
        terminal = "terminal" if self._is_at_terminal else "none"
        command = [sys.executable, "-I", "-S", "-B", str(_GUARD), str(theirs.fileno()), terminal]
        with theirs:
            self._guard = subprocess.Popen(
                [*command, *program], env=environ, pass_fds=(theirs.fileno(),)
            )
        ours.setblocking(False)
        self._channel = ours
        self._deadline = deadline
        self.started_at = boottime()
        self.why_not = ""
        self.status: int | None = None
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours, self._hear)
        self._heard = b""
        self._alarm = self._loop.call_later(POLL, self._watch_deadline)
        self._say(f"deadline {deadline}")

    def prolong(self, deadline: float) -> None:
        """All is dead then; an earlier deadline than before counts too."""
        if deadline != self._deadline:
            self._deadline = deadline
            self._say(f"deadline {deadline}")
            self._watch_deadline()

    def send(self, number: int) -> None:
        self._say(f"signal {number}")

    def kill(self) -> None:
        """At once: by the guard, and here if it does not answer."""
        self._say("kill")
        self.prolong(boottime())

    async def wait(self) -> int:
        """The exit status of the program, once nothing of it is left."""
        await self.ended.wait()
        assert self.status is not None
        return self.status

    def _say(self, line: str) -> None:
        # A frozen guard's channel is full, a dead one's closed: the deadline is kept here.
        with suppress(OSError):
            self._channel.send(line.encode() + b"\n")

    def _watch_deadline(self) -> None:
        self._alarm.cancel()
        if self.ended.is_set():
            return
        left = self._deadline - KILL_BEFORE - boottime()
        if left <= 0:
            kill_below(self._guard.pid)
            if left < -KILL_BEFORE:  # the guard had its time to tell how it ended
                send(self._guard.pid, signal.SIGKILL)
            left = KILL_BEFORE
        self._alarm = self._loop.call_later(min(left, POLL), self._watch_deadline)

    def _hear(self) -> None:
        try:
            data = self._channel.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            verb, _, value = line.decode().partition(" ")
            if verb == "ended":
                self.status = int(value)
            elif verb == "failed":
                self.status, self.why_not = CANNOT_START, value
            elif verb == "started":
                logger.info("the program runs", extra=fields(pid=value))
        if not data:
            self._guard_ended()

    def _guard_ended(self) -> None:
        self._loop.remove_reader(self._channel)
        self._channel.close()
        self._alarm.cancel()
        if self.status is None:
            # Killed. The kernel has killed the program; its descendants are ours now.
            while kill_below(os.getpid()):
                _reap_orphans(but=self._guard.pid)
            self.status = -signal.SIGKILL
        self._guard.wait()
        self.ended.set()


def _reap_orphans(*, but: int) -> None:
    for pid in descendants(os.getpid()):
        if pid != but:
            with suppress(ChildProcessError):  # the child of one that still lives
                os.waitpid(pid, os.WNOHANG)


class WrappedProgram:
    """Is the main container towards the elector: it is drained, and then it has stopped."""

    def __init__(self, policy: WrapPolicy, environ: Mapping[str, str]) -> None:
        self._policy = policy
        self._environ = environ
        self._running: GuardedProgram | None = None
        self._pause = FIRST_PAUSE
        self._is_doubted = False
        # Of the process, once `run` has returned.
        self.exit_status = 0
        self._stop_signal: int = signal.SIGTERM
        adopt_orphans()

    def install_signal_handlers(self, loop: asyncio.AbstractEventLoop) -> None:
        """After those of the process, whose SIGTERM ends the elector, and so the program."""
        for number in PASSED_ON:
            loop.add_signal_handler(number, self._pass_on, number)
        loop.add_signal_handler(signal.SIGINT, self._interrupted)

    def _pass_on(self, number: int) -> None:
        if self._running is not None:
            self._running.send(number)

    def _interrupted(self) -> None:
        # At a terminal the program has had it too.
        self._stop_signal = 0 if os.isatty(0) else signal.SIGINT
        os.kill(os.getpid(), signal.SIGTERM)

    async def drain(self, *, timeout: float) -> None:
        """Returns when the program has ended: by itself after a signal, or killed at the
        time-out."""
        if self._running is None:
            return
        running = self._running
        if not self._is_doubted and self._stop_signal:
            running.send(self._stop_signal)
        try:
            async with asyncio.timeout(timeout):
                await running.wait()
        except TimeoutError:
            logger.warning(
                "the program did not end in time and is killed",
                extra=fields(drain_timeout=f"{timeout:g}s"),
            )
            running.kill()
            await running.wait()

    async def run(self, elector: Elector) -> None:
        """Until cancelled; ends the elector when the program has ended for good."""
        while True:
            now = boottime()
            status = elector.status(now)
            if status.is_leader and status.remaining > self._policy.stop_before:
                elector.note_told(status)
                await self._run_once(elector, status.view.fencing_token)
            else:
                await elector.changed(POLL)

    async def _run_once(self, elector: Elector, token: int | None) -> None:
        config = elector.config
        environ = {
            **self._environ,
            "ELECTOR_LEASE": config.lease,
            "ELECTOR_NAMESPACE": config.namespace,
            "ELECTOR_FENCING_TOKEN": str(token),
        }
        deadline = elector.held_until(boottime())
        running = GuardedProgram(self._policy.program, environ, deadline=deadline)
        self._running, self._is_doubted, is_lost = running, False, False
        ended = asyncio.create_task(running.ended.wait())
        try:
            while not running.ended.is_set():
                now = boottime()
                held_until = elector.held_until(now)
                running.prolong(max(held_until, now))
                if held_until <= now and not is_lost:
                    is_lost = True
                    logger.warning("the lead is lost: the program is killed")
                    running.kill()
                elif held_until - now <= self._policy.stop_before and not self._is_doubted:
                    self._is_doubted = True
                    logger.warning(
                        "the lead is in doubt: the program is asked to end",
                        extra=fields(killed_in=f"{held_until - now:.1f}s"),
                    )
                    running.send(signal.SIGTERM)
                changed = asyncio.create_task(elector.changed(POLL))
                await asyncio.wait((changed, ended), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            ended.cancel()
            if not running.ended.is_set():
                running.kill()
                await running.wait()
            self._running = None
        # Also where this process was frozen while the guard killed the program.
        now = boottime()
        is_over = elector.held_until(now) <= now
        await self._after(elector, running, is_lost=is_lost or is_over or self._is_doubted)

    async def _after(self, elector: Elector, running: GuardedProgram, *, is_lost: bool) -> None:
        status = await running.wait()
        if running.why_not:
            logger.warning("the program cannot be started", extra=fields(why=running.why_not))
        logger.info("the program has ended", extra=fields(status=status))
        self.exit_status = status if status >= 0 else BY_SIGNAL - status
        if self._policy.restart:
            if boottime() - running.started_at >= LONGEST_PAUSE:
                self._pause = FIRST_PAUSE
            await elector.resign(cooldown=self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            return
        if is_lost:
            self.exit_status = LOST
        elector.terminate()
        await asyncio.Event().wait()  # until cancelled, with the elector
