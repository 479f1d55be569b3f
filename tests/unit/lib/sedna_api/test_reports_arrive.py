"""Reports of one node on their way into objects: no interleaving loses or doubles anything.

Plays an LC with its queue, a network that loses, repeats and reorders, GMs that store, an operator
that takes in, and a writer that prunes. Only lost databases and deleted NodeReports may lose
anything, and then only what nobody else had.
"""

from dataclasses import dataclass, field, replace
from itertools import takewhile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import Report, replaced_by
from edge_sidecars.sedna_api.core.store_reports import RETIRED_STORE, AlreadyStored, Stored
from edge_sidecars.sedna_api.core.stored_report import AppliedReport, StoredReport, mergeable
from tests.examples import examples

UIDS = st.sampled_from(["u1", "u2"])
WORKERS = st.sampled_from(["w1", "w2"])


@dataclass
class Lc:
    """The queue as an LC's database has it; what was said is numbered over all stores in `body`."""

    store_id: str = "s1"
    last: dict[str, int] = field(default_factory=dict)
    queue: list[Report] = field(default_factory=list)

    def say(self, uid: str, worker: str, *, is_event: bool, word: int) -> None:
        seq = self.last[uid] = self.last.get(uid, 0) + 1
        said = Report(
            store_id=self.store_id,
            seq=seq,
            uid=uid,
            kind="dataset",
            namespace="shop",
            name=uid,
            is_event=is_event,
            worker=worker,
            body=b'{"word":%d}' % word,
        )
        own = self.of(uid)
        replaced = replaced_by(said, own)
        if replaced is not None:
            self.queue.remove(own[replaced])
        self.queue.append(said)

    def of(self, uid: str) -> list[Report]:
        return [it for it in self.queue if it.uid == uid]

    def sent(self) -> list[Report]:
        """All that waits, each with what stands before it."""
        before: dict[str, int] = {}
        out = []
        for it in self.queue:
            out.append(replace(it, previous=before.get(it.uid, 0)))
            before[it.uid] = it.seq
        return out

    def acked(self, report: Report) -> None:
        self.queue = [
            it
            for it in self.queue
            if (it.store_id, it.uid) != (report.store_id, report.uid) or it.seq > report.seq
        ]


def word_of(report: Report | StoredReport) -> int:
    return int(report.body.decode().strip('{}"word: '))


class ReportsArrive(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lc = Lc()
        self.network: list[Report] = []
        self.node_report = NodeReport.new("shop", "edge-a", "s1", epoch=1)
        self.old_node_report = self.node_report
        self.applied: dict[str, AppliedReport] = {}
        self.taken: dict[str, list[StoredReport]] = {"u1": [], "u2": []}
        # Of each object: (word, worker, is_event) as said.
        self.said: dict[str, list[tuple[int, str, bool]]] = {"u1": [], "u2": []}
        # Words that a lost database or a deleted NodeReport may have taken along.
        self.excused: set[int] = set()
        self.stores = self.words = self.epochs = 1

    @initialize()
    def start(self) -> None:
        self.lc = Lc()

    # ── the node ──

    @rule(uid=UIDS, worker=WORKERS, is_event=st.booleans())
    def say(self, uid: str, worker: str, is_event: bool) -> None:
        self.words += 1
        self.lc.say(uid, worker, is_event=is_event, word=self.words)
        self.said[uid].append((self.words, worker, is_event))

    # The very first store was told, if only by a hello: one that nobody ever heard of is no older
    # store to anybody.
    @precondition(lambda self: self.node_report.store_id == self.lc.store_id)
    @rule()
    def lose_the_database(self) -> None:
        self.excused |= {word_of(it) for it in self.lc.queue}
        self.stores += 1
        self.lc = Lc(store_id=f"s{self.stores}")

    # ── the network ──

    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        waiting = self.lc.sent()
        self.network += waiting[: data.draw(st.integers(0, len(waiting)))]

    @precondition(lambda self: self.network)
    @rule(data=st.data(), stays=st.booleans())
    def deliver(self, data: st.DataObject, stays: bool) -> None:
        """Some of what is on its way, in any order; a GM stores it and acknowledges, or dies."""
        picked = data.draw(st.lists(st.sampled_from(self.network), max_size=4))
        self.store(picked, is_acked=data.draw(st.booleans()))
        if not stays:
            self.network = [it for it in self.network if it not in picked]

    def store(self, reports: list[Report], *, is_acked: bool) -> None:
        self.old_node_report = self.node_report
        self.node_report, outcomes = self.node_report.stored(reports)
        if not is_acked:
            return
        for report, outcome in zip(reports, outcomes, strict=True):
            if isinstance(outcome, Stored | AlreadyStored):
                self.lc.acked(report)
            else:
                assert getattr(outcome, "reason", RETIRED_STORE) == RETIRED_STORE

    # ── the cloud ──

    @rule(uid=UIDS, is_old=st.booleans(), count=st.integers(1, 3))
    def take_in(self, uid: str, is_old: bool, count: int) -> None:
        """The object is written under its version; the copy of the NodeReport may be old."""
        copy = self.old_node_report if is_old else self.node_report
        for report in mergeable(copy.pending(uid), self.applied.get(uid)).reports[:count]:
            self.taken[uid].append(report)
            self.applied[uid] = AppliedReport.of("edge-a", report)

    @rule()
    def prune(self) -> None:
        self.old_node_report = self.node_report
        self.node_report = self.node_report.pruned(self.applied, ())

    @rule()
    def delete_the_node_report(self) -> None:
        for uid in self.taken:
            self.excused |= {word_of(it) for it in self.node_report.pending(uid)}
        self.epochs += 100
        self.node_report = self.old_node_report = NodeReport.new(
            "shop", "edge-a", self.lc.store_id, epoch=self.epochs
        )
        # What is on its way from stores that only the old one knew is too old to be still there.
        self.network = [it for it in self.network if it.store_id == self.lc.store_id]

    # ── what must hold ──

    @invariant()
    def nothing_is_doubled_and_order_is_kept(self) -> None:
        for reports in self.taken.values():
            words = [word_of(it) for it in reports]
            events = [word_of(it) for it in reports if it.is_event]
            assert len(words) == len(set(words))
            assert events == sorted(events)

    @invariant()
    def epoch_and_seq_only_grow(self) -> None:
        for reports in self.taken.values():
            numbers = [(it.epoch, it.seq) for it in reports]
            assert numbers == sorted(numbers)

    @invariant()
    def no_event_overtakes_or_is_overtaken(self) -> None:
        """Also counts stay on their side of an event; among themselves each worker's order."""
        for uid, reports in self.taken.items():
            events = [word for word, _, is_event in self.said[uid] if is_event]
            behind = [sum(event < word_of(it) for event in events) for it in reports]
            assert behind == sorted(behind)
            for worker in ("w1", "w2"):
                own = [word_of(it) for it in reports if it.worker == worker]
                assert own == sorted(own)

    def teardown(self) -> None:
        """A connection that holds: all that was said has arrived, or nobody had it any more."""
        for _ in range(3):
            self.store(self.lc.sent(), is_acked=True)
            for uid in self.taken:
                self.take_in(uid, is_old=False, count=1_000_000)
            self.prune()
        assert not self.lc.queue
        self.nothing_is_doubled_and_order_is_kept()
        self.no_event_overtakes_or_is_overtaken()
        for uid, said in self.said.items():
            taken = {word_of(it) for it in self.taken[uid]}
            for index, (word, worker, is_event) in enumerate(said):
                until_event = takewhile(lambda it: not it[2], said[index + 1 :])
                is_replaced = not is_event and any(it[1] == worker for it in until_event)
                assert word in taken or word in self.excused or is_replaced


TestReportsArrive = ReportsArrive.TestCase
TestReportsArrive.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)
