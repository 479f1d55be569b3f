"""What workers say of jobs that LC does not know yet: kept until GM or the relay tells of the job.

A job that is made while LC is cut off may be started by kubelet first. Guarantees: At most
`MAX_REPORTS` and `MAX_BYTES` are kept. What has to go for a new one is the oldest of the namespace
that takes the most room, so that invented jobs in one namespace push out their own. A job that is
still unknown after `PATIENCE` seconds is given up, with all that is kept of it, until it is known.
"""

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from edge_sidecars.sedna_api.core.api_object import ObjectKey

MAX_REPORTS = 1000
MAX_BYTES = 16 * 1024 * 1024
# Seconds that LC runs: a wall clock may jump.
PATIENCE = 600.0
# Seconds between two looks at how long: what a new job may be counted too much at the first.
AGEING_INTERVAL = 10.0
# Jobs that were given up and are remembered: the oldest is forgotten, and waited for once more.
MAX_GIVEN_UP = 1000


class KeptReport(msgspec.Struct, frozen=True):
    """One report of a worker; `number` only grows."""

    number: int
    key: ObjectKey
    worker: str
    body: bytes


class UnknownJobs(msgspec.Struct, frozen=True):
    """`reports` by number, in order; `waited`: for how many seconds each job is waited for."""

    reports: Mapping[int, KeptReport] = msgspec.field(default_factory=dict)
    waited: Mapping[ObjectKey, float] = msgspec.field(default_factory=dict)
    last: int = 0

    def is_given_up(self, key: ObjectKey) -> bool:
        return self.waited.get(key, 0.0) >= PATIENCE

    def of(self, key: ObjectKey) -> tuple[KeptReport, ...]:
        """What is kept of one job, in order."""
        return tuple(it for it in self.reports.values() if it.key == key)

    def keys(self) -> frozenset[ObjectKey]:
        """Jobs of which something is kept."""
        return frozenset(it.key for it in self.reports.values())

    def taken(self, key: ObjectKey, worker: str, body: bytes) -> "UnknownJobs":
        """With one more; the same as the worker's last changes nothing. Not of one given up."""
        earlier = [it for it in self.reports.values() if (it.key, it.worker) == (key, worker)]
        if earlier and earlier[-1].body == body:
            return self
        kept = KeptReport(self.last + 1, key, worker, body)
        reports = {**self.reports, kept.number: kept}
        while (victim := _crowded_out(reports)) is not None:
            del reports[victim]
        return UnknownJobs(reports, {key: -AGEING_INTERVAL, **self.waited}, kept.number)._bounded()

    def without(self, number: int) -> "UnknownJobs":
        """It was passed on; with its last report a job is waited for no more."""
        reports = {at: it for at, it in self.reports.items() if at != number}
        gone = self.reports[number].key
        left = {it.key for it in reports.values()}
        waited = {key: it for key, it in self.waited.items() if key != gone or key in left}
        return replace(self, reports=reports, waited=waited)

    def known(self, key: ObjectKey) -> "UnknownJobs":
        """The job is there: what is kept of it stays until it is passed on."""
        if key not in self.waited or self.of(key):
            return self
        return replace(self, waited={at: it for at, it in self.waited.items() if at != key})

    def aged(self, elapsed: float, is_known: Callable[[ObjectKey], bool]) -> "UnknownJobs":
        """`elapsed` seconds later."""
        waited = {
            key: it if is_known(key) else min(it + elapsed, PATIENCE)
            for key, it in self.waited.items()
        }
        reports = {at: it for at, it in self.reports.items() if waited.get(it.key, 0.0) < PATIENCE}
        return UnknownJobs(reports, waited, self.last)

    def _bounded(self) -> "UnknownJobs":
        needed = self.keys()
        others = [key for key in self.waited if key not in needed]
        forgotten = set(others[MAX_GIVEN_UP:])
        return replace(
            self, waited={key: it for key, it in self.waited.items() if key not in forgotten}
        )


def _crowded_out(reports: Mapping[int, KeptReport]) -> int | None:
    counts = Counter(it.key.namespace for it in reports.values())
    sizes: Counter[str] = Counter()
    for it in reports.values():
        sizes[it.key.namespace] += len(it.body)
    if len(reports) <= MAX_REPORTS and sizes.total() <= MAX_BYTES:
        return None
    shares = counts if len(reports) > MAX_REPORTS else sizes
    most = max(shares.values())
    return next(at for at, it in reports.items() if shares[it.key.namespace] == most)
