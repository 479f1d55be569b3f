"""The message layer as a whole, whatever happens in between (G3, G4; and G2 for reports).

Objects change, watches lag, connections are cut or left half-open, LCs and GMs restart, leaders
write what they read long ago. At each step nothing is doubled, out of order or turned back; when
the faults end, everything has arrived.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.api_object import ObjectKey
from edge_sidecars.sedna_api.core.node_report import NodeReport
from lc.core.session import RESEND_AFTER
from tests.examples import examples
from tests.unit.gm.message_world import KIND, Api, Fold, Gm, Lc, fold

GMS = 2
NAMES = ("one", "two")
# Rounds in which everything moves on by one step; more than any backlog needs.
ROUNDS = 60
LONGEST = 250


class Play:
    """One LC, two GMs, two objects that come and go. Each step is told which GM or object, and how
    much."""

    def __init__(self) -> None:
        self.now = 0.0
        self.api = Api()
        self.gms = [Gm(self.api) for _ in range(GMS)]
        self.lc = Lc(self.api)
        self.said = 0
        self.fold: Fold | None = None
        self.highest: dict[str, int] = {}
        for name in NAMES:
            self.api.put(name)
        self.connect(0, 1)
        self.all_goes_well(0, 2)

    # The API and its GMs

    def change(self, number: int, count: int) -> None:
        self.api.put(NAMES[number])

    def delete(self, number: int, count: int) -> None:
        if self._key(number) in self.api.objects:
            self.api.delete(NAMES[number])

    def watch(self, number: int, count: int) -> None:
        """The second GM is far behind most of the time."""
        gm = self.gms[number]
        if number == 0 or count == 1:
            gm.watch(min(gm.position + count, len(self.api.history)))

    def restart_gm(self, number: int, count: int) -> None:
        gm = self.gms[number]
        if self.lc.connection in gm.connections:
            self.lc.restart()
        gm.restart(behind=count - 1)

    def read_report(self, number: int, count: int) -> None:
        if self.gms[number].copy is None:
            self.gms[number].read_report()

    def store(self, number: int, count: int) -> None:
        """Over the copy that was read before, if there is one."""
        if self.gms[number].copy is None:
            self.gms[number].read_report()
        self.gms[number].store()

    def prune(self, number: int, count: int) -> None:
        report: NodeReport = self.api.report
        statuses = self.api.status.items()
        applied = {uid: taken.applied for uid, taken in statuses if taken.applied is not None}
        gone = {uid for uid in report.entries if self.api.by_uid(uid) is None}
        pruned = report.pruned(applied, gone)
        if pruned is not report:
            self.api.write_report(report, pruned)

    def leader_reads(self, number: int, count: int) -> None:
        document = self.api.objects.get(self._key(number))
        if document is not None:
            self.fold = fold(self.api, self.api.report, document) or self.fold

    def leader_writes(self, number: int, count: int) -> None:
        """A status write, bound to the resourceVersion that was read, however long ago."""
        ready = self.fold
        if ready is None:
            self.leader_reads(number, count)
            return
        if count > 2:
            self.fold = None
        if self.api.objects.get(ready.document.key) != ready.document:
            return
        taken = self.api.status[ready.document.uid]
        taken.applied = ready.applied
        taken.effects += [(each.store_id, each.seq, each.body) for each in ready.reports]
        self.api.put(ready.document.name)

    # LC

    def connect(self, number: int, count: int) -> None:
        self.lc.connect(self.gms[number])

    def send(self, number: int, count: int) -> None:
        self.lc.send(limit=count, now=self.now)

    def hear(self, number: int, count: int) -> None:
        for _ in range(count):
            self.lc.hear(now=self.now)

    def report(self, number: int, count: int) -> None:
        document = self.lc.objects.get(self._key(number))
        if document is not None:
            self.said += 1
            body = json.dumps({"phase": "Train", "n": self.said}).encode()
            self.lc.report(document, body=body, is_event=count > 2, now=self.now)

    def restart_lc(self, number: int, count: int) -> None:
        self.lc.restart()

    def lose_disk(self, number: int, count: int) -> None:
        """With the node's reboot: nothing of before is on its way any more."""
        for gm in self.gms:
            gm.connections, gm.report_queue = [], []
        self.lc.lose_disk()
        self.highest = {}

    # The wire

    def carry(self, number: int, count: int) -> None:
        """Of every connection, those that LC has left included."""
        gm = self.gms[number]
        for connection in tuple(gm.connections):
            for _ in range(count):
                if connection.up:
                    gm.hear(connection)
            gm.say(connection)

    def cut(self, number: int, count: int) -> None:
        """What is on its way is lost but for the first few; GM notices later, or never."""
        connection = self.lc.connection
        if connection is not None:
            while len(connection.up) >= count:
                connection.up.pop()
            self.lc.restart()

    def time_passes(self, number: int, count: int) -> None:
        self.now += RESEND_AFTER / 2

    def all_goes_well(self, number: int, count: int) -> None:
        for _ in range(count):
            self._move_on()

    # What always holds

    def check(self) -> None:
        self.no_object_of_lc_turns_back()
        for uid, said in self.lc.events.items():
            taken = [body for _, _, body in self._effects(uid) if body in said]
            assert taken == said[: len(taken)], "each event once, and in its order"
        for uid in self.api.status:
            numbers = [seq for _, seq, _ in self._effects(uid)]
            assert numbers == sorted(set(numbers)), "no report is taken in late, or twice"
        self.lc_forgets_only_what_is_safe()

    def no_object_of_lc_turns_back(self) -> None:
        for document in self.lc.objects.values():
            assert document.resource_version >= self.highest.get(document.uid, 0)
            self.highest[document.uid] = document.resource_version

    def lc_forgets_only_what_is_safe(self) -> None:
        """An acknowledged event stands in the NodeReport or was taken in, or its object is gone."""
        for uid in self.lc.queues:
            if self.api.by_uid(uid) is None:
                continue
            assert uid not in {refused for refused, _ in self.lc.refused}
            kept = {report.body for report in self.lc.pending()}
            stored = {report.body for report in self.api.report.pending(uid)}
            taken = {body for _, _, body in self._effects(uid)}
            assert set(self.lc.events.get(uid, [])) <= kept | stored | taken

    # When the faults end

    def check_that_everything_arrives(self) -> None:
        if self.lc.connection is None:
            self.connect(0, 1)
        for _ in range(ROUNDS):
            self._move_on()
            self.check()
        assert self.lc.objects == self.api.objects
        living = {each.uid for each in self.api.objects.values()}
        assert [report for report in self.lc.pending() if report.uid in living] == []
        for uid in living:
            taken = [body for _, _, body in self._effects(uid)]
            said = self.lc.events.get(uid, [])
            assert [body for body in taken if body in said] == said
            if uid in self.lc.newest:
                assert self.lc.newest[uid] in taken
        assert all(not entry.reports for entry in self.api.report.entries.values())
        assert set(self.api.report.entries) <= living

    def _move_on(self) -> None:
        self.now += RESEND_AFTER / 4
        if self.lc.connection is not None and self.lc.is_over:
            self.connect(1 - self.gms.index(self.lc.connection.gm), 1)
        for number, gm in enumerate(self.gms):
            gm.watch(len(self.api.history))
            self.carry(number, 4)
            self.store(number, 1)
            self.carry(number, 4)
        self.send(0, 100)
        self.hear(0, 20)
        self.fold = None
        for number in range(len(NAMES)):
            self.leader_reads(number, 4)
            self.leader_writes(number, 4)
        self.prune(0, 1)

    def _key(self, number: int) -> ObjectKey:
        return ObjectKey(KIND, "shop", NAMES[number])

    def _effects(self, uid: str) -> list[tuple[str, int, bytes]]:
        """Those of LC's present store: each counts on its own."""
        effects = self.api.status[uid].effects if uid in self.api.status else []
        return [each for each in effects if each[0] == self.lc.store_id]


Step = Callable[[Play, int, int], None]
# How often each happens: what undoes much seldom, so that there is something to undo.
WEIGHTS: dict[Step, int] = {
    Play.report: 8,
    Play.send: 8,
    Play.carry: 12,
    Play.hear: 8,
    Play.read_report: 6,
    Play.store: 6,
    Play.leader_reads: 6,
    Play.leader_writes: 6,
    Play.watch: 4,
    Play.prune: 3,
    Play.connect: 4,
    Play.change: 3,
    Play.delete: 3,
    Play.time_passes: 2,
    Play.cut: 1,
    Play.restart_gm: 1,
    Play.restart_lc: 1,
    Play.lose_disk: 1,
    Play.all_goes_well: 1,
}
steps = st.tuples(
    st.sampled_from([step for step, weight in WEIGHTS.items() for _ in range(weight)]),
    st.integers(0, 1),
    st.integers(1, 4),
)
plays = st.integers(1, LONGEST).flatmap(lambda n: st.lists(steps, min_size=n, max_size=n))

# LC has heard of a new object and comes to a GM that has not.
AHEAD_OF_ITS_GM: list[tuple[Step, int, int]] = [
    (Play.delete, 0, 1),
    (Play.change, 0, 1),
    (Play.watch, 0, 4),
    (Play.carry, 0, 4),
    (Play.hear, 0, 4),
    (Play.connect, 1, 1),
    (Play.carry, 1, 4),
    (Play.hear, 0, 4),
]
# LC has heard of a change, then that its object is gone, and comes to a GM that knows neither.
GONE_AHEAD_OF_ITS_GM: list[tuple[Step, int, int]] = [
    (Play.change, 0, 1),
    (Play.watch, 0, 4),
    (Play.carry, 0, 4),
    (Play.hear, 0, 4),
    (Play.delete, 0, 1),
    (Play.watch, 0, 4),
    (Play.carry, 0, 4),
    (Play.hear, 0, 4),
    (Play.connect, 1, 1),
    (Play.carry, 1, 4),
    (Play.hear, 0, 4),
]


@settings(max_examples=examples(120), deadline=None)
@given(plays)
@example(AHEAD_OF_ITS_GM)
@example(GONE_AHEAD_OF_ITS_GM)
def test_nothing_is_lost_doubled_or_turned_back(play: list[tuple[Step, int, int]]) -> None:
    world = Play()
    for step, number, count in play:
        step(world, number, count)
        world.check()
    world.check_that_everything_arrives()
