"""All answers of one pod to one question, with their times: for orders and gaps.

Polls from a thread of its own while it is entered. No answer (frozen, gone) leaves no entry.
"""

import threading
from typing import Self

from tools.harness.controlplane.clients.answer import Answer
from tools.harness.pods.elector import ElectorPod

POLL_INTERVAL = 0.01


class Timeline:
    def __init__(self, pod: ElectorPod, path: str = "/readyz") -> None:
        self._pod = pod
        self._path = path
        self._stop = threading.Event()
        self._answers: list[Answer] = []
        self._thread = threading.Thread(target=self._poll, name=f"timeline-{pod.name}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def answers(self) -> list[Answer]:
        return list(self._answers)

    def statuses(self, *, since: float = 0.0, until: float = float("inf")) -> list[int]:
        """Of the requests that were sent and answered in between."""
        return [
            answer.status
            for answer in self.answers
            if since <= answer.sent and answer.received <= until
        ]

    def first(self, status: int, *, since: float = 0.0) -> Answer:
        """The first such answer to a request that was sent since then."""
        for answer in self.answers:
            if answer.status == status and answer.sent >= since:
                return answer
        raise AssertionError(f"no {status} of {self._path} by {self._pod.name}")

    def _poll(self) -> None:
        while not self._stop.wait(POLL_INTERVAL):
            self._ask()
        self._ask()  # what the test saw last is in the record too

    def _ask(self) -> None:
        if self._pod.is_running and self._pod.port:
            answer = self._pod.ask(self._path)
            if answer is not None:
                self._answers.append(answer)
