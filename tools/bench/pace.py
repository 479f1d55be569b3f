"""Waiting, in any thread of the benchmark, that one call of `stop` ends.

Guarantee: after `stop` every waiting call raises `Stopped` at once, so that Ctrl-C leaves the
stacks through their context managers, which end what they started.
"""

import threading
from collections.abc import Callable

POLL_INTERVAL = 0.005

_stopped = threading.Event()


class Stopped(Exception):
    """The benchmark is to end."""


class TookTooLong(Exception):
    """A condition did not come true in time; the run counts as failed."""


def stop() -> None:
    _stopped.set()


def sleep(seconds: float) -> None:
    if _stopped.wait(max(seconds, 0.0)):
        raise Stopped


def wait_for(
    condition: Callable[[], bool], *, timeout: float, what: str, interval: float = POLL_INTERVAL
) -> None:
    """Raises `TookTooLong` after `timeout` seconds."""
    waited = 0.0
    while not condition():
        if waited >= timeout:
            raise TookTooLong(f"not within {timeout:g} s: {what}")
        sleep(interval)
        waited += interval
