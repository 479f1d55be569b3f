"""Who asked for the end of the demo, by key or by signal.

Guarantee: from `note_signals` on, the first signal is noted and raises nothing, so that a process
which was just started is put under guard before the demo ends; a second one raises Terminated,
unless `finish` was called: what is being removed then is removed.
"""

import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """A signal that is obeyed at once; `number` tells which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Shutdown:
    """`is_asked` is looked at wherever the demo waits; `number` is that of the noted signal."""

    def __init__(self) -> None:
        self.is_asked = False
        self.number: int | None = None
        self._notes = False
        self._finishes = False

    def install(self) -> None:
        """Signals raise Terminated, wherever the demo stands."""
        for number in SIGNALS:
            signal.signal(number, self._obey)

    def note_signals(self) -> None:
        self._notes = True

    def finish(self) -> None:
        """No signal does anything from now on."""
        self._finishes = True

    def ask(self) -> None:
        self.is_asked = True

    def _obey(self, number: int, frame: FrameType | None) -> None:
        if self._finishes:
            return
        if not self._notes or self.number is not None:
            raise Terminated(number)
        self.number = number
        self.is_asked = True
