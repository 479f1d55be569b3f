"""What an outside observer sees: every elector is asked again and again, every answer is kept.

Owns one thread per pod. The judgement whether two pods led at once is that of the tests
(`tests.pods.observer`): an answer 200 of an older term, asked for after a newer term's first 200.
"""

import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from demo.pod import Pod
from tests.pods.elector import ask
from tests.pods.observer import Overlap, Ready, overlaps

# Seconds between two questions to one elector: some 1 % of a core each.
READY_INTERVAL = 0.05
# For people's eyes; each so many-th question also asks for the documents.
DOCUMENT_EVERY = 5
# A frozen process does not answer; the next question must not wait for it.
ANSWER_TIMEOUT = 1.0

Document = dict[str, Any]


class Watcher:
    """Asks while it is entered."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._answers: list[Ready] = []
        self._electors: dict[str, Document | None] = {}
        self._mains: dict[str, Document | None] = {}
        self._threads = [
            threading.Thread(target=self._ask, args=(pod,), name=f"watch-{pod.name}")
            for pod in pods
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

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
        return max((after - before for before, after in pairwise(times)), default=0.0)

    def _ask(self, pod: Pod) -> None:
        turn = 0
        while not self._stop.wait(READY_INTERVAL):
            answer = ask(pod.port, "/readyz", timeout=ANSWER_TIMEOUT)
            if answer is not None and answer.status == 200:
                ready = Ready(
                    pod=pod.name,
                    identity=pod.name,
                    token=int(answer.headers["X-Leader-Fencing-Token"]),
                    sent=answer.sent,
                    received=answer.received,
                    valid_until=float(answer.headers["X-Leader-Valid-Until"]),
                )
                with self._lock:
                    self._answers.append(ready)
            if turn % DOCUMENT_EVERY == 0:
                elector = self._document(pod.port, "/leader")
                main = self._document(pod.main_port, "/healthz")
                with self._lock:
                    self._electors[pod.name], self._mains[pod.name] = elector, main
            turn += 1

    def _document(self, port: int, path: str) -> Document | None:
        answer = ask(port, path, timeout=ANSWER_TIMEOUT)
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
