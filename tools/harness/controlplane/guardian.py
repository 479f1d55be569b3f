"""Ends processes and removes a folder as soon as whoever started them is gone, however it went.

A guardian is a process of its own that reads commands from a pipe whose only other end is held
by its owner. Guarantees: when that end closes (the owner closed it, returned, crashed or was
killed by SIGKILL), every watched process is killed, frozen ones too, and the folder removed;
a process id that was used again is never hit (pidfd); Ctrl-C in the terminal does not reach it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path


class Guardian:
    """The owner's side: watches child processes of the caller until `close`; any thread may ask."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def watch(self, pid: int) -> None:
        """Returns when the process, a child that was not waited for yet, is under guard."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(f"{pid}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if answer != "watching\n":
            raise ChildProcessError(f"the guardian ended, it cannot watch process {pid}")

    def close(self) -> None:
        """Kills what is watched, removes the folder, and returns when both is done."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.communicate()


def _without_ended(watched: list[int]) -> list[int]:
    """So that descriptors do not run out where thousands come and go."""
    poll = select.poll()
    for pidfd in watched:
        poll.register(pidfd, select.POLLIN)
    ended = {pidfd for pidfd, _ in poll.poll(0)}
    for pidfd in ended:
        os.close(pidfd)
    return [pidfd for pidfd in watched if pidfd not in ended]


def _main() -> None:
    # Nothing may end a guardian before its work is done.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: list[int] = []
    for line in sys.stdin:
        watched = _without_ended(watched)
        with contextlib.suppress(ProcessLookupError):
            watched.append(os.pidfd_open(int(line)))
        print("watching", flush=True)
    for pidfd in watched:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    for pidfd in watched:
        # Readable means that the process has ended.
        wait = select.poll()
        wait.register(pidfd, select.POLLIN)
        wait.poll()
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    _main()
