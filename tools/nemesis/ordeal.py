"""Random faults upon processes, one or several at a time, each in a thread of its own.

Owns which resources are under a fault; what there is to do and to judge is its heirs'. Guarantees:
what is drawn is decided by the seed alone; at most one fault per resource at a time; `look_after`
tells of every fault that broke and of whoever is gone without having been told to go.
"""

import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from tools.nemesis.elector.faults import Draw, Misbehaviour, NotApplicable


class Candidate(Protocol):
    """What is looked after: it runs, unless a fault has just ended it."""

    @property
    def name(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    def log_text(self) -> str: ...


class Ordeal(ABC):
    def __init__(self, *, seed: int, say: Callable[[str], None]) -> None:
        self._random = random.Random(seed)
        self._say = say
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._running: list[Future[None]] = []
        self._counts: Counter[str] = Counter()
        self._complaints: list[str] = []

    @property
    @abstractmethod
    def _candidates(self) -> Sequence[Candidate]: ...

    @abstractmethod
    def _resources(self, draw: Draw) -> set[str]:
        """What the fault touches."""

    @abstractmethod
    def _do(self, draw: Draw) -> None:
        """Returns when it has ended."""

    def _begin(self, workers: ThreadPoolExecutor, draw: Draw) -> None:
        resources = self._resources(draw)
        with self._lock:
            if self._busy & resources:
                return
            self._busy |= resources
        self._running.append(workers.submit(self._hold, draw, resources))

    def _hold(self, draw: Draw, resources: set[str]) -> None:
        started = time.time()
        try:
            self._do(draw)
        except NotApplicable:
            return
        except Misbehaviour as error:
            self._complaints.append(str(error))
        finally:
            with self._lock:
                self._busy -= resources
        self._counts[draw.kind] += 1
        self._say(
            f"{started:.3f} +{time.time() - started:.2f}s {draw.kind} {draw.target}"
            f" luck {draw.luck:.3f}"
        )

    def _look_after(self) -> None:
        """Whatever broke in a worker; whoever is gone without having been told to go."""
        for future in [each for each in self._running if each.done()]:
            future.result()
            self._running.remove(future)
        for candidate in self._candidates:
            with self._lock:
                is_left_alone = f"{candidate.name} process" not in self._busy
                is_gone = is_left_alone and not candidate.is_running
            if is_gone:
                self._complaints.append(f"{candidate.name} is gone: {candidate.log_text()}")
