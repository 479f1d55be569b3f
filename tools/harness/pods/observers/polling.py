"""Threads that ask again and again while they are entered: one for each of whom they ask.

Knows neither questions nor answers. Guarantee: nobody is asked any more when it has been left.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Self


class Polling:
    """A context manager. Whoever asks is one, so that who enters it need not know of threads."""

    def __init__(
        self,
        asks: Iterable[tuple[str, Callable[[], object]]],
        *,
        interval: float,
        is_last_seen: bool = False,
    ) -> None:
        """`asks`: names of threads, and questions; `is_last_seen`: each is asked once more
        at the end, so that what was so then is among the answers."""
        self._interval = interval
        self._is_last_seen = is_last_seen
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._poll, args=(ask,), name=name) for name, ask in asks
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _poll(self, ask: Callable[[], object]) -> None:
        while not self._stop.wait(self._interval):
            ask()
        if self._is_last_seen:
            ask()
