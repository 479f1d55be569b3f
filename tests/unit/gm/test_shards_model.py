"""GMs with shards: jobs are deleted and made anew while members freeze, die and lose their shards.

What must hold at any time: of an object that lives no child is made twice; no report leaves its
NodeReport before its object has taken it in. And once all goes well: every object has exactly its
children, and says what was last reported of it.
"""

from collections.abc import Callable

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.api_object import ObjectKey
from edge_sidecars.sedna_api.core.kinds import NODE_REPORT
from edge_sidecars.sedna_api.core.node_report import NodeReport
from gm.core.engine.plan import NODE
from tests.examples import examples
from tests.unit.gm.controller.samples import dataset, federated, model
from tests.unit.gm.shard_world import NODES, SHARDS, Api, Gm, Ring, say

NAMES = ("gm-0", "gm-1", "gm-2")
JOBS = ("a", "b", "c")
DATASETS = ("d1", "d2")
# More rounds than anything that goes well takes.
MOST = 60


class Play:
    def __init__(self) -> None:
        self.api = Api()
        for node in NODES:
            self.api.create(NODE, {"metadata": {"name": node, "namespace": ""}})
        self.api.create("model", model("base"))
        self.api.create("dataset", dataset("d1"))
        self.api.create("dataset", dataset("d2", node="edge-b"))
        report = NodeReport.new("shop", "edge-a", "s1", epoch=1)
        self.api.create(NODE_REPORT.singular, report.to_json())
        self.ring = Ring()
        self.gms = [Gm(name, self.api, self.ring) for name in NAMES]
        self.seq = 0
        for shard in range(SHARDS):
            self.ring.owners[shard] = NAMES[shard % len(NAMES)]

    # ── steps, each with two numbers ──

    def make(self, number: int, _: int) -> None:
        key = self.job(number)
        if key not in self.api.objects:
            self.api.create(key.kind, federated(key.name))

    def delete(self, number: int, _: int) -> None:
        if self.job(number) in self.api.objects:
            self.api.delete(self.job(number))

    def make_anew(self, number: int, _: int) -> None:
        self.delete(number, 0)
        self.make(number, 0)

    def report(self, _: int, __: int) -> None:
        self.seq += 1
        say(self.api, "d1", self.seq)

    def watch(self, number: int, count: int) -> None:
        """One stream of one GM."""
        gm = self._gm(number)
        kinds = sorted(gm.informers.collections)
        gm.watch(kinds[count % len(kinds)], count)

    def watch_jobs(self, number: int, count: int) -> None:
        self._gm(number).watch("federatedlearningjob", count)

    def watch_pods(self, number: int, count: int) -> None:
        self._gm(number).watch("pod", count)

    def watch_all(self, number: int, _: int) -> None:
        gm = self._gm(number)
        for kind in gm.informers.collections:
            gm.watch(kind, len(self.api.history))

    def reconcile(self, number: int, which: int) -> None:
        keys = [*map(self.job, range(len(JOBS))), *self._others()]
        self._gm(number).reconcile(keys[which % len(keys)])

    def prune(self, number: int, _: int) -> None:
        self._gm(number).prune()

    def go_on(self, number: int, which: int) -> None:
        """One step of what one GM does."""
        gm = self._gm(number)
        if gm.work:
            gm.go_on(sorted(gm.work)[which % len(gm.work)])

    def finish(self, number: int, _: int) -> None:
        """All that one GM does, to its end."""
        gm = self._gm(number)
        for uid in sorted(gm.work):
            while uid in gm.work:
                gm.go_on(uid)

    def hand_over(self, shard: int, number: int) -> None:
        """In order: the owner begins nothing, and another owns it when what was begun has ended."""
        if self.ring.owners[shard % SHARDS]:
            self.ring.handing_over.setdefault(shard % SHARDS, self._gm(number).name)

    def confirm(self, _: int, __: int) -> None:
        for shard, name in list(self.ring.handing_over.items()):
            owner = next(it for it in self.gms if it.name == self.ring.owners[shard])
            if not any(shard_is(shard, uid) for uid in owner.work):
                self.ring.owners[shard] = name
                del self.ring.handing_over[shard]

    def seize(self, shard: int, number: int) -> None:
        """The owner is frozen or cut off: what it has sent arrives late, and it sends no more."""
        self.ring.owners[shard % SHARDS] = self._gm(number).name
        self.ring.handing_over.pop(shard % SHARDS, None)

    def die(self, number: int, arrives: int) -> None:
        """What it has sent arrives, or does not."""
        gm = self._gm(number)
        for uid in sorted(gm.work):
            if arrives % 2:
                gm.go_on(uid)
        for work in gm.work.values():
            work.going.close()
        for shard, owner in self.ring.owners.items():
            if owner == gm.name:
                self.seize(shard, number + 1 + shard % 2)
        gm.restart()

    def collect(self, _: int, __: int) -> None:
        self.api.collect()

    # ── what must hold ──

    def check(self) -> None:
        alive = {it["metadata"]["uid"] for it in self.api.objects.values()}
        twice = {key: n for key, n in self.api.created.items() if key[0] in alive and n > 1}
        assert not twice
        assert not self.api.lost

    def all_goes_well(self) -> None:
        for _ in range(MOST):
            self.confirm(0, 0)
            before = len(self.api.history)
            for number in range(len(self.gms)):
                self.finish(number, 0)
                self.watch_all(number, 0)
                self.prune(number, 0)
                for which in range(len(JOBS) + len(self._others())):
                    self.reconcile(number, which)
                self.finish(number, 0)
            self.api.collect()
            self.check()
            if len(self.api.history) == before and not self.ring.handing_over:
                return
        raise AssertionError("it does not come to rest")

    def check_the_end(self) -> None:
        for number in range(len(JOBS)):
            key = self.job(number)
            job = self.api.objects.get(key)
            if job is None:
                continue
            uid = job["metadata"]["uid"]
            mine = {
                it.name
                for it, child in self.api.objects.items()
                if it.kind == "pod" and child["metadata"]["ownerReferences"][0]["uid"] == uid
            }
            assert mine == {
                f"{key.name}-aggregation-0",
                f"{key.name}-train-0",
                f"{key.name}-train-1",
            }
            assert job["status"]["startTime"]
        told = self.api.objects[ObjectKey("dataset", "shop", "d1")].get("status", {})
        assert told.get("numberOfSamples", 0) == self.seq
        report = self.api.objects[ObjectKey(NODE_REPORT.singular, "shop", "edge-a")]
        assert not any(it.reports for it in NodeReport.parse(report).entries.values())

    def _gm(self, number: int) -> Gm:
        return self.gms[number % len(self.gms)]

    def job(self, number: int) -> ObjectKey:
        return ObjectKey("federatedlearningjob", "shop", JOBS[number % len(JOBS)])

    def _others(self) -> list[ObjectKey]:
        return [ObjectKey("dataset", "shop", it) for it in DATASETS] + [
            ObjectKey("model", "shop", "base")
        ]


def shard_is(shard: int, uid: str) -> bool:
    return Ring.shard(uid) == shard


Step = Callable[[Play, int, int], None]
# What happens often is here more than once.
STEPS: list[Step] = [
    *[Play.make, Play.make_anew, Play.make_anew, Play.delete, Play.report, Play.collect],
    *[Play.watch, Play.watch_jobs, Play.watch_pods, Play.watch_all, Play.watch_all],
    *[Play.reconcile, Play.reconcile, Play.reconcile, Play.prune],
    *[Play.go_on, Play.go_on, Play.go_on, Play.go_on, Play.finish, Play.finish],
    *[Play.hand_over, Play.confirm, Play.seize, Play.die],
]


def play(steps: list[tuple[Step, int, int]]) -> None:
    world = Play()
    for step, number, count in steps:
        step(world, number, count)
        world.check()
    world.all_goes_well()
    world.check_the_end()


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 8), st.integers(0, 8)), max_size=120)
)
@example([])
def test_no_child_is_made_twice_and_no_report_is_lost(steps: list[tuple[Step, int, int]]) -> None:
    play(steps)


# What chance finds too seldom.


def owner(world: Play, key: ObjectKey) -> int:
    """The number of the GM that owns the object."""
    uid = world.api.objects[key]["metadata"]["uid"]
    return NAMES.index(world.ring.owners[Ring.shard(uid)])


def decide(world: Play, number: int, key: ObjectKey) -> None:
    """Up to the first request, which is on its way."""
    gm = world.gms[number]
    gm.reconcile(key)
    for uid in sorted(gm.work):
        gm.go_on(uid)


def test_a_gm_that_has_not_heard_of_a_jobs_successor_leaves_its_pods_alone() -> None:
    world = Play()
    job = world.job(0)
    world.make(0, 0)
    former = owner(world, job)
    world.watch_all(former, 0)
    world.make_anew(0, 0)
    while owner(world, job) == former:
        world.make_anew(0, 0)
    present = owner(world, job)
    world.watch_all(present, 0)
    world.gms[present].reconcile(job)
    world.finish(present, 0)
    assert sum(key.kind == "pod" for key in world.api.objects) == 3
    # It knows of neither the new job nor any pod, and makes those of the old one.
    world.gms[former].reconcile(job)
    world.finish(former, 0)
    assert world.gms[former].informers.get(job) is not None
    world.all_goes_well()
    world.check_the_end()


def test_what_is_left_to_write_of_a_lost_shards_object_is_not_sent() -> None:
    world = Play()
    job = world.job(0)
    world.make(0, 0)
    former = owner(world, job)
    world.watch_all(former, 0)
    decide(world, former, job)
    uid = world.api.objects[job]["metadata"]["uid"]
    world.seize(Ring.shard(uid), former + 1)
    world.finish(former, 0)
    # One was sent before; the other children and the status are another GM's.
    assert sum(world.api.created.values()) == 1
    assert "status" not in world.api.objects[job]
    world.all_goes_well()
    world.check_the_end()


def test_a_status_that_arrives_late_takes_back_no_report() -> None:
    world = Play()
    key = ObjectKey("dataset", "shop", "d1")
    former = owner(world, key)
    world.all_goes_well()
    world.report(0, 0)
    world.watch_all(former, 0)
    decide(world, former, key)
    uid = world.api.objects[key]["metadata"]["uid"]
    world.seize(Ring.shard(uid), former + 1)
    world.report(0, 0)
    world.watch_all(former + 1, 0)
    world.reconcile(former + 1, len(JOBS))
    world.finish(former + 1, 0)
    assert world.api.objects[key]["status"]["numberOfSamples"] == 2
    # Frozen since, it wakes up: its first count arrives now.
    world.finish(former, 0)
    assert world.api.objects[key]["status"]["numberOfSamples"] == 2
    world.all_goes_well()
    world.check_the_end()
