"""What the demo needs of where it runs: programs, ways to the API server that can be cut, and it.

`processes.py` and `containers.py` are such environments. Nothing here knows pods, steps or screens.
"""

import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.demo.timing import Timing
from tools.harness.controlplane.api_server import ApiServer

# Seconds for an orderly end of a program, which needs tenths; then the step has failed.
END_TIMEOUT = 15.0
# Lines of a log that tell why something went wrong.
TAIL = 5


class Unprepared(Exception):
    """What the demo runs on could not be made; the message says why."""


class Program(Protocol):
    """Started and ended as often as one likes; one that was not started is as good as running."""

    def start(self) -> None:
        """Returns at once."""

    def end(self, number: signal.Signals) -> int | None:
        """Sends the signal and waits: the exit status, None if it did not end in time."""

    def exit_status(self) -> int | None:
        """None while it runs."""

    def log_tail(self) -> Sequence[str]:
        """The last lines, over all its runs."""


class Link(Protocol):
    """The way to the API server."""

    def cut(self) -> None:
        """From now on nothing gets through."""

    def heal(self) -> None: ...


@dataclass(frozen=True)
class PodParts:
    """`port` is the elector's, `main_port` the main's, both as an observer reaches them."""

    sidecar: Program
    main: Program
    link: Link
    host: str
    port: int
    main_port: int


@dataclass(frozen=True)
class EdgeParts:
    """`port` is that of the API, as a program on the node is answered there."""

    relay: Program
    link: Link
    host: str
    port: int
    status_port: int


class Environment(Protocol):
    """Whatever it made ends with it."""

    @property
    def plane(self) -> ApiServer: ...

    @property
    def ledger(self) -> Path:
        """One for all mains: each unit of work is a line with its term's fencing token."""

    def pod(self, name: str, namespace: str, timing: Timing) -> PodParts:
        """Nothing of it runs yet."""

    def edge(self, namespace: str) -> EdgeParts:
        """Nothing of it runs yet."""


class Backend(Protocol):
    """Makes an environment at once: all is there that takes long to get."""

    @property
    def title(self) -> str: ...

    def open(self) -> AbstractContextManager[Environment]: ...
