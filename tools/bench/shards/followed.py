"""A member and its main: follows `/shards` as it changes, and keeps when what was owned.

A stream brings each change as soon as it is true for the member, so that no time between two looks
is part of what is measured. Leaves no connection open, also where the member was killed.
"""

import http.client
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.elector import ElectorPod

# An elector sends its document each second.
SILENCE = 30.0
JOIN_TIMEOUT = 10.0


@dataclass(frozen=True)
class Owned:
    """What a member owned from a moment on, in seconds of CLOCK_BOOTTIME."""

    since: float
    shards: frozenset[int]


class Followed:
    """A main that confirms at once what is handed over, or never; it does no other work."""

    def __init__(self, pod: ElectorPod, *, confirms: bool) -> None:
        self._port = pod.port
        self._confirms = confirms
        self._is_ended = False
        self.history: list[Owned] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stream = stack.enter_context(closing(self._connection()))
            self._words = stack.enter_context(closing(self._connection()))
            self._stream.request("GET", "/shards?watch=true")
            self._response = stack.enter_context(self._stream.getresponse())
            self._heard(self._response.readline())
            self._stack = stack.pop_all()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ended = True  # the next line, a second later at most, ends it
        self._thread.join(JOIN_TIMEOUT)
        self._stack.close()

    @property
    def owned(self) -> frozenset[int]:
        return self.history[-1].shards

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(LOOPBACK, self._port, timeout=SILENCE)

    def _run(self) -> None:
        try:
            while not self._is_ended and (line := self._response.readline()):
                self._heard(line)
        except (OSError, http.client.HTTPException):
            return  # the member has ended

    def _heard(self, line: bytes) -> None:
        arrived = boottime()
        document = json.loads(line)
        shards = frozenset(it["shard"] for it in document["owned"])
        if not self.history or shards != self.owned:
            self.history.append(Owned(arrived, shards))
        for it in document["handingOver"] if self._confirms else ():
            self._confirm(it)

    def _confirm(self, handed_over: dict[str, Any]) -> None:
        shard, token = handed_over["shard"], handed_over["fencingToken"]
        self._words.request("POST", f"/shards/{shard}/released?token={token}")
        with self._words.getresponse() as answer:
            answer.read()


@contextmanager
def following(pods: Sequence[ElectorPod], *, confirms: bool) -> Iterator[list[Followed]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Followed(pod, confirms=confirms)) for pod in pods]


def gaps(histories: Iterable[Sequence[Owned]]) -> dict[int, float]:
    """For how many seconds each shard that changed its owner had none: from the document that it
    left to the one that it came with. A history for each member."""
    lost: dict[int, float] = {}
    found: dict[int, float] = {}
    for history in histories:
        for before, after in pairwise(history):
            lost |= dict.fromkeys(before.shards - after.shards, after.since)
            found |= dict.fromkeys(after.shards - before.shards, after.since)
    return {shard: at - lost[shard] for shard, at in found.items()}
