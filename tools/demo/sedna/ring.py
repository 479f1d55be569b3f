"""Who owns which shards, as an outsider sees it: every elector is asked again and again.

Owns one thread per elector. Guarantee: an elector is asked in a way that tells its main nothing
(`promise=false`), so that to look changes no hand-over.
"""

import threading
from collections.abc import Mapping, Sequence
from functools import partial

from edge_sidecars.leader_client import shard_of
from tools.demo.sedna.claims import Claims
from tools.harness.pods.gm import GmPod
from tools.harness.pods.observers.polling import Polling

# Seconds between two questions to one elector.
INTERVAL = 0.1
# A process that is frozen or busy starting does not answer.
ANSWER_TIMEOUT = 1.0
NOBODY = ""


class Ring(Polling):
    """Asks while it is entered. `shards`: how many there are."""

    def __init__(self, pods: Sequence[GmPod], *, shards: int) -> None:
        asks = [(f"ring-{pod.name}", partial(self._ask, pod)) for pod in pods]
        super().__init__(asks, interval=INTERVAL)
        self.shards = shards
        self._lock = threading.Lock()
        self._claims = Claims()
        # By pod: the fencing token of each of its shards in its newest answer.
        self._owned: dict[str, Mapping[int, int]] = {}

    @property
    def answers(self) -> int:
        return self._claims.answers

    def owners(self) -> Mapping[int, str]:
        """Names by shard, as everybody said last."""
        with self._lock:
            return {shard: pod for pod, owned in self._owned.items() for shard in owned}

    def owner_of(self, uid: str) -> str:
        return self.owners().get(self.shard_of(uid), NOBODY)

    def shard_of(self, uid: str) -> int:
        return shard_of(uid, self.shards)

    def share(self, pod: GmPod) -> int:
        with self._lock:
            return len(self._owned.get(pod.name, ()))

    def is_even(self, pods: Sequence[GmPod]) -> bool:
        """Whether these own all shards, in shares that differ by one at most."""
        shares = [self.share(pod) for pod in pods]
        return sum(shares) == self.shards and max(shares) - min(shares) <= 1

    def broken(self) -> list[str]:
        """Shards that two owned at once."""
        with self._lock:
            return list(self._claims.broken())

    def _ask(self, pod: GmPod) -> None:
        answer = None
        if pod.elector.is_running:
            answer = pod.elector.ask("/shards?promise=false", timeout=ANSWER_TIMEOUT)
        if answer is None or answer.status != 200:
            with self._lock:
                self._owned[pod.name] = {}
            return
        owned = {it["shard"]: int(it["fencingToken"]) for it in answer.json()["owned"]}
        with self._lock:
            self._owned[pod.name] = owned
            self._claims.note(pod.name, owned, sent=answer.sent, received=answer.received)
