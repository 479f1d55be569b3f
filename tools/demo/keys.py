"""Single keys from the terminal, without Return; none where there is no terminal.

Guarantee: the terminal is left as it was found. Ctrl-C stays the terminal's own signal.
"""

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable
from typing import Self

POLL_INTERVAL = 0.1


class Keys:
    """Calls `pressed` from a thread of its own for each key, while it is entered."""

    def __init__(self, pressed: Callable[[str], None]) -> None:
        self._pressed = pressed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="keys")
        self.is_there = _is_foreground_terminal()

    def __enter__(self) -> Self:
        if self.is_there:
            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_there:
            self._stop.set()
            self._thread.join()
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)

    def _read(self) -> None:
        while not self._stop.is_set():
            if select.select([sys.stdin], [], [], POLL_INTERVAL)[0]:
                key = os.read(sys.stdin.fileno(), 1).decode("latin-1")
                if not key:
                    return
                self._pressed(key)


def _is_foreground_terminal() -> bool:
    """A background job that touches its terminal would be stopped."""
    if not sys.stdin.isatty():
        return False
    return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
