"""Judges S1 from outside: a Go program asks every member for its shards, 100 times a second.

Fencing tokens order the terms of a shard, so two owners at once show as an answer that was asked
for after a newer term's first answer had been received, and yet bears an older token.
"""

import json
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Self

from tools.harness.peers.build import local_binary
from tools.harness.pods.observers.observer import Observed
from tools.harness.pods.observers.polling import Polling

SOURCE = Path(__file__).parent / "shardobserver"
# Seconds: a pod that restarts has another port.
PORT_INTERVAL = 0.02


@dataclass(frozen=True)
class Span:
    """A shard in one term of one pod: when it was first and last seen owned, in seconds. The same
    token once more, after the pod answered otherwise, is another one."""

    pod: str
    shard: int
    token: int
    first: float
    last: float


@dataclass(frozen=True)
class TwoOwners:
    """An answer of an older term that was asked for after a newer one's first."""

    stale: Span
    newer: Span

    @property
    def seconds(self) -> float:
        return self.stale.last - self.newer.first


def two_owners(spans: Sequence[Span]) -> list[TwoOwners]:
    """`spans` of all shards, in any order."""
    found = []
    of_shard: dict[int, list[Span]] = {}
    for span in spans:
        of_shard.setdefault(span.shard, []).append(span)
    for terms in of_shard.values():
        terms.sort(key=lambda it: (it.token, it.pod, it.first))
        last = terms[0]
        for newer in terms[1:]:
            if last.last > newer.first:
                found.append(TwoOwners(last, newer))
            last = max(last, newer, key=lambda it: it.last)
    return found


def together(spans: Sequence[Span]) -> list[tuple[Span, Span]]:
    """Spans of one shard and two pods that have a moment in common. A restore of etcd gives the
    same tokens again, so that they order nothing there."""
    of_shard: dict[int, list[Span]] = {}
    for span in sorted(spans, key=lambda it: it.first):
        of_shard.setdefault(span.shard, []).append(span)
    return [
        (one, other)
        for terms in of_shard.values()
        for one, other in combinations(terms, 2)
        if one.pod != other.pod and max(one.first, other.first) < min(one.last, other.last)
    ]


class ShardObserver(Polling):
    """Asks while it is entered; `asked`: the shards for which /owns is asked, too."""

    def __init__(self, pods: Sequence[Observed], *, asked: Sequence[int]) -> None:
        super().__init__([("ports", self._tell_ports)], interval=PORT_INTERVAL, is_last_seen=True)
        self._pods = pods
        self._asked = [str(shard) for shard in asked]
        self._told: dict[str, int] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.answers = 0

    def __enter__(self) -> Self:
        binary = local_binary("shard-observer", SOURCE / "go.mod", version="v1")
        self._process = subprocess.Popen(
            [str(binary), *self._asked], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell_ports()
        return super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self._process is not None:
            with self._process:  # closes its pipes
                self._process.kill()

    def spans(self) -> list[Span]:
        """All that was seen so far."""
        self._say("report")
        assert self._process is not None
        assert self._process.stdout is not None
        report = json.loads(self._process.stdout.readline())
        self.answers = report["answers"]
        return [Span(**it) for it in report["spans"]]

    def two_owners(self) -> list[TwoOwners]:
        return two_owners(self.spans())

    def _tell_ports(self) -> None:
        for pod in self._pods:
            if pod.port and self._told.get(pod.name) != pod.port:
                self._told[pod.name] = pod.port
                self._say(f"pod {pod.name} {pod.port}")

    def _say(self, line: str) -> None:
        assert self._process is not None, "it is not entered"
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
