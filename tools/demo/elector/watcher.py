"""What an outside observer sees: every elector is asked again and again, every answer is kept.

Owns one thread per pod. The judgement whether two pods led at once is that of the tests
(`tools.harness.pods.observers.observer`): an answer 200 of an older term, asked for after a newer
term's first 200.
"""

import itertools
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tools.demo.elector.pod import Pod
from tools.harness.controlplane.clients.answer import ask
from tools.harness.pods.observers.observer import Overlap, Ready, overlaps
from tools.harness.pods.observers.polling import Polling

# Seconds between two questions to one elector: some 1 % of a core each.
READY_INTERVAL = 0.05
# For people's eyes; each so many-th question also asks for the documents.
DOCUMENT_EVERY = 5
# A frozen process does not answer; the next question must not wait for it.
ANSWER_TIMEOUT = 1.0

Document = dict[str, Any]


class Watcher(Polling):
    """Asks while it is entered."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        asks = [(f"watch-{pod.name}", partial(self._ask, pod, itertools.count())) for pod in pods]
        super().__init__(asks, interval=READY_INTERVAL)
        self._lock = threading.Lock()
        self._answers: list[Ready] = []
        self._electors: dict[str, Document | None] = {}
        self._mains: dict[str, Document | None] = {}

    def elector(self, pod: Pod) -> Document | None:
        """Its latest `/leader`; None while it does not answer."""
        with self._lock:
            return self._electors.get(pod.name)

    def main(self, pod: Pod) -> Document | None:
        """Its latest `/healthz`; None while it does not answer."""
        with self._lock:
            return self._mains.get(pod.name)

    def answers(self, *, since: float = 0.0) -> list[Ready]:
        """The 200s that were asked for since then, in the order of their receipt."""
        with self._lock:
            found = [ready for ready in self._answers if ready.sent >= since]
        return sorted(found, key=lambda ready: ready.received)

    def newest(self) -> Ready | None:
        """A 200 of the newest term so far."""
        return max(self.answers(), key=lambda ready: (ready.token, ready.received), default=None)

    def first_after(self, token: int) -> Ready | None:
        """The first 200 of a newer term."""
        return next((ready for ready in self.answers() if ready.token > token), None)

    def overlaps(self) -> list[Overlap]:
        return overlaps(self.answers())

    def vacancy(self, since: float) -> float:
        """The longest time since then in which nobody answered 200."""
        times = [ready.received for ready in self.answers(since=since)]
        return max((after - before for before, after in itertools.pairwise(times)), default=0.0)

    def _ask(self, pod: Pod, turns: Iterator[int]) -> None:
        answer = ask(pod.port, "/readyz?promise=false", host=pod.host, timeout=ANSWER_TIMEOUT)
        ready = Ready.found(answer, pod=pod.name, identity=pod.name)
        if ready is not None:
            with self._lock:
                self._answers.append(ready)
        if next(turns) % DOCUMENT_EVERY == 0:
            elector = self._document(pod, pod.port, "/leader?promise=false")
            main = self._document(pod, pod.main_port, "/healthz")
            with self._lock:
                self._electors[pod.name], self._mains[pod.name] = elector, main

    def _document(self, pod: Pod, port: int, path: str) -> Document | None:
        answer = ask(port, path, host=pod.host, timeout=ANSWER_TIMEOUT)
        return answer.json() if answer is not None and answer.status == 200 else None


def check_ledger(ledger: Path) -> tuple[int, int, int]:
    """Units of work, terms, and units that were done in an older term than one before them."""
    if not ledger.exists():
        return 0, 0, 0
    tokens = [int(line) for line in ledger.read_text(encoding="ascii").split()]
    newest, late = 0, 0
    for token in tokens:
        late += token < newest
        newest = max(newest, token)
    return len(tokens), len(set(tokens)), late
