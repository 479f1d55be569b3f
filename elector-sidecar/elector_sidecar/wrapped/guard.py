"""The guard: a process between elector-sidecar and the program that it wraps.

Started as `python -I -S guard.py FD TERMINAL PROGRAM…`; imports the standard library alone, so that
the program starts soon. Guarantee: the program and all its descendants are dead at the deadline
that came last, whatever becomes of elector-sidecar: ended, killed or frozen.

    elector-sidecar ──channel── guard ──fork── program ── its descendants
      ended or killed: the guard sees the end of the channel, and ends the program
      frozen: the guard's own timer kills the program
    guard killed: the kernel kills the program (PR_SET_PDEATHSIG), elector-sidecar what is left of
    its descendants; guard frozen: elector-sidecar kills all of them

Lines on the channel, to the guard: `deadline SECONDS`, `signal NUMBER`, `kill`; from it:
`started PID`, `failed TEXT`, `ended STATUS` (as subprocess has it), once all of it is gone.
"""

import ctypes
import errno
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

# Seconds before the deadline: the kill itself, and a process that is slow to die.
KILL_BEFORE = 0.1
# Seconds between two looks for descendants that are not dead yet.
RETRY = 0.01
# Seconds from SIGTERM to SIGKILL for what a program leaves behind when it ends.
LEFT_BEHIND_GRACE = 1.0
# A guard that lost its channel at the start, and a program that cannot be started.
CANNOT_START = 127
# prctl(2), timerfd_create(2).
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TFD_TIMER_ABSTIME = 1
_TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
# To everybody who is at the terminal; what they are for is the program's business.
_FROM_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """From now on descendants whose parent ended are children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """The kernel sends this signal when the parent ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def descendants(pid: int) -> list[int]:
    """All living processes below this one, children first; zombies are dead."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (parent := _living_parent(entry.name)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for it in found:  # grows as it is walked
        found.extend(children.get(it, ()))
    return found


def _named_by_parents(pid: int) -> list[int]:
    found = [pid]
    for it in found:  # grows as it is walked
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{it}/task"):
                with open(f"/proc/{it}/task/{thread}/children", "rb") as children:
                    found.extend(map(int, children.read().split()))
    return found[1:]


def _living_parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name may hold blanks and brackets; state and parent follow it.
            state, parent = stat.read().rpartition(b")")[2].split(maxsplit=2)[:2]
    except OSError:
        return None
    return None if state in (b"Z", b"X") else int(parent)


def kill_below(pid: int) -> bool:
    """SIGKILL for all descendants; whether there were any."""
    for it in _named_by_parents(pid):  # in a millisecond; may leave out some (proc(5))
        send(it, signal.SIGKILL)
    found = descendants(pid)
    for it in found:
        send(it, signal.SIGKILL)
    return bool(found)


def send(pid: int, number: int) -> None:
    """A signal, to a process that may have ended; negative: to a group."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class BoottimeAlarm:
    """A descriptor that is readable from a moment of CLOCK_BOOTTIME on, suspends included."""

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(time.CLOCK_BOOTTIME, _TFD_FLAGS)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def set(self, at: float) -> None:
        at = max(at, 0.001)  # 0 would disarm it
        value = struct.pack("4q", 0, 0, int(at), int(at % 1 * 1e9))
        if _libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, value, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")


class Guard:
    def __init__(self, channel: socket.socket, program: list[str], *, is_at_terminal: bool) -> None:
        self._channel: socket.socket | None = channel
        self._program = program
        self._is_at_terminal = is_at_terminal
        self._received = b""
        self._pid = 0
        self._status: int | None = None
        # CLOCK_BOOTTIME: when all is killed; earlier ones may come.
        self._kill_at = 0.0
        self._is_killing = False
        self._alarm = BoottimeAlarm()

    def run(self) -> int:
        """The exit status, once nothing of the program is left."""
        adopt_orphans()
        for number in _FROM_THE_TERMINAL:
            signal.signal(number, signal.SIG_IGN)
        reader, writer = os.pipe2(_TFD_FLAGS)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Of the kernel when elector-sidecar ended.
        signal.signal(signal.SIGTERM, lambda *_: self._signal(signal.SIGTERM))
        parent = os.getppid()
        die_with_parent(signal.SIGTERM)
        if os.getppid() != parent or not self._hear_first_deadline() or not self._start():
            return CANNOT_START
        poll = select.poll()
        for fd in (reader, self._alarm.fd):
            poll.register(fd, select.POLLIN)
        if self._channel is not None:
            poll.register(self._channel, select.POLLIN)
        while True:
            for fd, _ in poll.poll(RETRY * 1000 if self._is_killing else None):
                if fd == reader:
                    os.read(reader, 4096)
                elif fd == self._alarm.fd:
                    os.read(fd, 8)
                    self._is_killing = True
                elif self._channel is not None and not self._hear():
                    poll.unregister(self._channel)
                    self._channel = None
                    self._signal(signal.SIGTERM)
            self._reap()
            if self._is_killing:
                kill_below(os.getpid())
                self._reap()
            elif self._status is not None and descendants(os.getpid()):
                self._end_what_is_left()
            if self._status is not None and not descendants(os.getpid()):
                self._say(f"ended {self._status}")
                return 0

    # ── the channel ──

    def _hear_first_deadline(self) -> bool:
        """Before it is known the program does not begin."""
        while not self._kill_at:
            if not self._hear():
                return False
        return True

    def _hear(self) -> bool:
        """False at the end of the channel."""
        if self._channel is None:
            return False
        try:
            data = self._channel.recv(4096)
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            verb, _, value = line.decode("ascii").partition(" ")
            if verb == "deadline":
                self._kill_at = float(value) - KILL_BEFORE
                if self._status is None:
                    self._alarm.set(self._kill_at)
            elif verb == "signal":
                self._signal(int(value))
            elif verb == "kill":
                self._is_killing = True
        return bool(data)

    def _say(self, line: str) -> None:
        if self._channel is not None:
            with suppress(OSError):  # elector-sidecar is gone
                self._channel.sendall(line.encode() + b"\n")

    # ── the program ──

    def _start(self) -> bool:
        guard = os.getpid()

        def prepare() -> None:
            for number in (*_FROM_THE_TERMINAL, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            die_with_parent(signal.SIGKILL)
            if os.getppid() != guard:  # it ended before the line above
                os._exit(CANNOT_START)

        try:
            if time.clock_gettime(time.CLOCK_BOOTTIME) >= self._kill_at:
                raise OSError(errno.ETIME, "the lead was over before the program began")
            process = subprocess.Popen(
                self._program,
                preexec_fn=prepare,
                # At a terminal it stays in the group that the terminal's keys reach.
                process_group=None if self._is_at_terminal else 0,
            )
        except OSError as error:
            self._say(f"failed {error.strerror}")
            return False
        self._pid = process.pid
        process.returncode = 0  # reaped here, with its descendants
        self._say(f"started {self._pid}")
        return True

    def _signal(self, number: int) -> None:
        """To the program's whole group."""
        if self._status is None and self._pid:
            send(self._pid if self._is_at_terminal else -self._pid, number)

    def _reap(self) -> None:
        for pid, status in _ended():
            if pid == self._pid:
                self._status = os.waitstatus_to_exitcode(status)

    def _end_what_is_left(self) -> None:
        """Of the program's descendants, now that it ended: once SIGTERM, then SIGKILL."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if self._kill_at <= now + LEFT_BEHIND_GRACE:
            return
        self._kill_at = now + LEFT_BEHIND_GRACE
        self._alarm.set(self._kill_at)
        for pid in descendants(os.getpid()):
            send(pid, signal.SIGTERM)


def _ended() -> Iterator[tuple[int, int]]:
    """Children that ended, with their wait status."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def main(arguments: list[str]) -> None:
    fd, terminal, *program = arguments
    channel = socket.socket(fileno=int(fd))
    channel.set_inheritable(False)
    sys.exit(Guard(channel, program, is_at_terminal=terminal == "terminal").run())


if __name__ == "__main__":
    main(sys.argv[1:])
