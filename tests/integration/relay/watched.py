"""Sets of informers, and whether what they hold is what stands in the cloud.

Guarantees: `wait_equal` returns only when every informer of the process holds exactly the objects
and versions of a consistent list that was made after the wait began.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from tests.integration.relay.place import Place
from tools.harness.peers.informers import InformerProcess, State, spec
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import collection, hash_of

POLL_INTERVAL = 0.1
# Seconds: client-go backs off up to 30 s between two attempts, with jitter up to 60 s.
EQUAL_TIMEOUT = 75.0


@dataclass(frozen=True)
class Watched:
    """What one informer selects; `resource` is PLURAL[.VERSION[.GROUP]]."""

    kind: str
    resource: str
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @property
    def spec(self) -> str:
        return spec(
            self.kind,
            self.resource,
            namespace=self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
        )

    def hash(self, place: Place) -> str:
        """Of what the cloud lists now."""
        query: Parameters = {
            "labelSelector": self.label_selector,
            "fieldSelector": self.field_selector,
        }
        path = collection(self.resource, self.namespace)
        # 429: a custom resource whose schema has just changed, "storage is (re)initializing".
        while (listed := place.cloud.get(path, query)).status == HTTPStatus.TOO_MANY_REQUESTS:
            time.sleep(POLL_INTERVAL)
        return hash_of(listed.expect()["items"])


def wait_equal(
    process: InformerProcess,
    watched: Sequence[Watched],
    place: Place,
    *,
    timeout: float = EQUAL_TIMEOUT,
) -> None:
    """`watched` in the order of the process's specs; nobody writes meanwhile."""
    truth = {each.spec: each.hash(place) for each in watched}
    deadline = time.monotonic() + timeout
    while unequal := [each for each in process.states() if _differs(each, truth)]:
        if time.monotonic() > deadline:
            raise AssertionError(
                f"{len(unequal)} informers differ after {timeout:g} s: {unequal[:3]}; "
                f"{process.stats()[:3]}; {process.log_text()[-3000:]}"
            )
        time.sleep(POLL_INTERVAL)


def _differs(state: State, truth: dict[str, str]) -> bool:
    return not state.is_synced or state.hash != truth[state.informer]
