"""Random faults upon a pool of nodes, judged by an observer that stands outside.

Storms and scenes by turns; after each, all is healed and must be well again, and the watch clients
of all nodes become equal to upstream. At the end, while all is well, one node watches for all, and
nothing is written. What is a finding is in `verdict`, `writers` and `lists`.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tools.harness.controlplane.access.accounts import RequestRefusedError, expect
from tools.harness.peers.informers import InformerProcess
from tools.nemesis.elector.faults import Draw
from tools.nemesis.ordeal import Candidate, Ordeal
from tools.nemesis.pool import plays
from tools.nemesis.pool.churn import Churn
from tools.nemesis.pool.faults import Faults, resources
from tools.nemesis.pool.judge.lists import lists_again
from tools.nemesis.pool.judge.timeline import Timeline, What
from tools.nemesis.pool.judge.verdict import Rules, deaths_to_judge, judge
from tools.nemesis.pool.judge.writers import foreign_writes, loud_writes, renewals, watchers
from tools.nemesis.pool.node import WATCHED, Part
from tools.nemesis.pool.objects import condition
from tools.nemesis.pool.observer import Observer
from tools.nemesis.pool.testbed import NAMES, OUTSIDE, PoolTestbed
from tools.nemesis.pool.workloads import (
    CONTROL,
    CONTROL_SECONDS,
    DEAD_SECONDS,
    KEPT,
    REPLICAS,
    SHOP,
)

STORM = "storm"
# The share of plays that are storms.
STORMS = 0.4
# Seconds: of a storm; between two judgements; until all is well after all was healed.
STORM_SECONDS = (60.0, 120.0)
JUDGE_EVERY = 10.0
HEALING = 180.0
# After all is well until nothing is written any more: what is held for 10 s, and last reports.
SETTLING = 30.0
CALM = 60.0
# Until the nodes have one watch of each shared resource in common, where the calm is a whole one: a
# candidate leads, and a follower joins once the Leader's window holds its cursor.
SHARED_WITHIN = 180.0
SHARED = ("services", "endpointslices")
# The longest pause of a client-go reflector between two tries (tools/cache/reflector.go:
# defaultBackoffMax, and as much again by chance): it sleeps on while its relay is back.
CLIENT_PAUSE = 60.0
# Until watch clients have what upstream has; until it is said which ones have not.
EQUAL_WITHIN, BEHIND = CLIENT_PAUSE + 30.0, 10.0
RULES = Rules(
    NAMES,
    kept=dict.fromkeys(KEPT, float(DEAD_SECONDS)),
    replicas={SHOP: REPLICAS[SHOP]},
    controls={CONTROL: float(CONTROL_SECONDS)},
)
WORKERS = 64


@dataclass(frozen=True)
class Outcome:
    """`evicted`: pods that were to go from nodes, by workload; `deaths`: how often a node got the
    taint `dead`; `judged`: how often one had to, in time; `lost`: how often one turned Unknown;
    `slowest`: seconds until all was well after all was healed."""

    findings: Sequence[str]
    counts: Counter[str]
    plays: Counter[str]
    evicted: Counter[str]
    deaths: int
    judged: int
    lost: int
    renewals: int
    slowest: float

    @property
    def is_good(self) -> bool:
        return not self.findings


@dataclass(frozen=True)
class _Named:
    """A part of a node, as the ordeal looks after it."""

    name: str
    part: Part

    @property
    def is_running(self) -> bool:
        return self.part.is_running

    def log_text(self) -> str:
        return self.part.log_text()


class PoolNemesis(Ordeal):
    """`calm`: seconds at the end in which nothing is written."""

    def __init__(
        self, testbed: PoolTestbed, *, seed: int, say: Callable[[str], None], calm: float = CALM
    ) -> None:
        super().__init__(seed=seed, say=say)
        self._testbed = testbed
        self._timeline = Timeline()
        self._faults = Faults(testbed, self._timeline)
        self._calm = calm
        self._plays: Counter[str] = Counter()
        self._findings: list[str] = []
        self._slowest = 0.0
        self._judge_at = 0.0
        self._started = time.time()

    @property
    def _candidates(self) -> Sequence[Candidate]:
        return [
            _Named(f"{name} {what}", part)
            for name, node in self._testbed.nodes.items()
            for what, part in node.parts.items()
        ]

    def run(self, seconds: float, *, only: str = "") -> Outcome:
        """Fails fast: the first finding ends it. `only`: STORM, or the name of a scene."""
        plane = self._testbed.plane
        with ExitStack() as stack:
            self._observer = stack.enter_context(Observer(plane, self._testbed.namespace))
            upstream = InformerProcess(plane.admin_kubeconfig(), WATCHED, user_agent="upstream")
            stack.enter_context(upstream)
            self._wait_well()
            end = time.monotonic() + seconds
            with Churn(plane, self._testbed.namespace):
                while time.monotonic() < end and not self._broken:
                    self._play(only or self._drawn(), until=end)
                    self._wait_well()
                    self._wait_equal(upstream)
            self._wait_equal(upstream)
            if not self._broken:
                self._rest()
            return self._outcome()

    # ── playing ──

    def _drawn(self) -> str:
        is_storm = self._random.random() < STORMS
        return STORM if is_storm else self._random.choice(list(plays.SCENES))

    def _play(self, name: str, *, until: float) -> None:
        self._plays[name] += 1
        self._say(f"{time.time():.3f} {name}")
        if name == STORM:
            length = self._random.uniform(*STORM_SECONDS)
            self._storm(min(time.monotonic() + length, until))
        else:
            scenes = {**plays.SCENES, **plays.LONG_SCENES}
            self._scene(scenes[name](self._random))

    def _storm(self, end: float) -> None:
        with ThreadPoolExecutor(max_workers=WORKERS) as workers:
            while time.monotonic() < end and not self._broken:
                self._watch(min(self._random.random() * plays.PAUSE, end - time.monotonic()))
                for draw in plays.storm(self._random):
                    # All end with the storm.
                    seconds = min(draw.seconds, max(end - time.monotonic(), plays.SHORTEST))
                    self._begin(workers, replace(draw, seconds=seconds))
            self._watch_running()

    def _scene(self, cues: plays.Cues) -> None:
        started = time.monotonic()
        with ThreadPoolExecutor(max_workers=WORKERS) as workers:
            for cue in sorted(cues, key=lambda it: it.after):
                self._watch(started + cue.after - time.monotonic())
                self._begin(workers, cue.draw)
            self._watch_running()

    def _resources(self, draw: Draw) -> set[str]:
        return resources(draw)

    def _do(self, draw: Draw) -> None:
        with self._faults.hold(draw):
            time.sleep(draw.seconds)

    # ── judging ──

    @property
    def _broken(self) -> list[str]:
        return [*self._findings, *self._complaints]

    def _watch(self, seconds: float) -> None:
        """Lets time pass, and judges."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            self._look()

    def _watch_running(self) -> None:
        """Until all faults are over."""
        while self._running:
            time.sleep(0.5)
            self._look()

    def _look(self) -> None:
        self._look_after()
        self._testbed.check_running()
        if time.monotonic() < self._judge_at:
            return
        self._judge_at = time.monotonic() + JUDGE_EVERY
        self._judge()

    def _judge(self) -> None:
        events = self._testbed.plane.audit(since=self._started)
        written = renewals(events)
        with self._observer.lock:
            found = judge(
                self._observer.history, self._timeline.spans(), written, RULES, now=time.time()
            )
        found += foreign_writes(events)
        for it in SHARED:
            # From before the first fault on: of when its first list was.
            asked = self._testbed.plane.audit(stage=None, resource=it)
            found += lists_again(asked, self._timeline.spans(), it, now=time.time())
        self._findings += [it for it in found if it not in self._findings]

    def _wait_well(self) -> None:
        started = time.monotonic()
        while (missing := self._missing()) and not self._broken:
            if time.monotonic() - started > HEALING:
                self._complaints.append(f"not well {HEALING:g} s after healing: {missing}")
                return
            time.sleep(0.5)
            self._look()
        if self._broken:
            return
        took = time.monotonic() - started
        self._slowest = max(self._slowest, took)
        self._say(f"{time.time():.3f} well after {took:.1f} s")

    def _missing(self) -> str:
        """In words, what is not as it should be; "" for nothing."""
        try:
            nodes = expect(self._testbed.plane.admin.get("/api/v1/nodes"))["items"]
        except (OSError, RequestRefusedError) as error:
            return str(error)
        for it in nodes:
            name, taints = it["metadata"]["name"], it["spec"].get("taints", ())
            if name in (*NAMES, *OUTSIDE) and (condition(it, "Ready"), len(taints)) != ("True", 0):
                return f"{name}: Ready {condition(it, 'Ready')}, {[each['key'] for each in taints]}"
        for name, node in self._testbed.nodes.items():
            said = node.said()
            if said is None or said["link"] != "Own":
                return f"{name}: {'no answer' if said is None else said['link']}"
            alive = {it["node"] for it in said["peers"] if it["verdict"] == "Alive"}
            if alive != set(NAMES) - {name}:
                return f"{name} sees alive: {', '.join(sorted(alive))}"
        if not self._testbed.controller.may_act:
            return "the pools' controller does not lead"
        with self._observer.lock:
            pods = self._observer.history.pods.values()
            for app, wanted in REPLICAS.items():
                if sum(it.app == app and it.runs(time.time()) for it in pods) != wanted:
                    return f"not all pods of {app} run"
        return ""

    def _wait_equal(self, upstream: InformerProcess) -> None:
        """Invariant 5: each watch client comes to what upstream has, and saw nothing wrong on its
        way."""
        nodes, begun, is_said = self._testbed.nodes, time.monotonic(), False
        behind = [*nodes]
        while behind and not self._broken:
            # While Services change, they are equal one after the other.
            behind = [it for it in behind if nodes[it].held() != _hashes(upstream)]
            took = time.monotonic() - begun
            if took > EQUAL_WITHIN:
                self._findings += [f"watch: {it} ended unequal to upstream" for it in behind]
            if behind and not is_said and took > BEHIND:
                is_said = True
                self._say(f"{time.time():.3f} behind {upstream.states()}")
                for it in behind:
                    self._say(f"{it}: {nodes[it].watch_state()}")
            if behind:
                time.sleep(0.5)
                self._look()
        if is_said and not self._broken:
            self._say(f"{time.time():.3f} equal after {took:.1f} s")
        for name, node in nodes.items():
            self._findings += [f"watch: {name}: {it}" for it in node.wrong_events()]

    # ── the end ──

    def _rest(self) -> None:
        """Invariants 6 and 7."""
        self._watch(SETTLING)
        if self._calm >= CALM:
            self._wait_shared()
        since = time.time()
        self._watch(self._calm)
        self._findings += loud_writes(self._testbed.plane.audit(since=since))
        if missing := self._missing():
            self._complaints.append(f"not well in the calm: {missing}")

    def _wait_shared(self) -> None:
        deadline = time.monotonic() + SHARED_WITHIN
        while (watched := self._watched()) and not self._broken:
            if time.monotonic() > deadline:
                self._findings += [f"one stream: {it}" for it in watched]
            self._watch(1.0)

    def _watched(self) -> list[str]:
        """What more than one node of the pool watches, and which ones."""
        servers = [it.begin for it in self._timeline.spans() if it.what is What.SERVER]
        events = self._testbed.plane.audit(stage=None, since=max(servers, default=self._started))
        found = {it: [who for who in watchers(events, it) if who in NAMES] for it in SHARED}
        return [f"{it}: {', '.join(who)}" for it, who in found.items() if len(who) > 1]

    def _outcome(self) -> Outcome:
        self._judge()
        for name, text in self._testbed.logs().items():
            if "Traceback" in text:
                self._complaints.append(f"{name} raised: {text[text.index('Traceback') :][:2000]}")
        if not self._observer.is_looking:
            self._complaints.append("the observer has ended: what it has not seen is not known")
        with self._observer.lock:
            history = self._observer.history
            evicted = Counter(
                it.app for it in history.pods.values() if it.node and it.deleting_at <= time.time()
            )
            judged = deaths_to_judge(history, self._timeline.spans(), RULES, now=time.time())
            deaths = sum(len(history.dead_spans(it)) for it in NAMES)
            lost = sum(len(history.lost_spans(it)) for it in NAMES)
        written = len(renewals(self._testbed.plane.audit(since=self._started)))
        return Outcome(
            self._broken,
            self._counts,
            self._plays,
            evicted,
            deaths,
            judged,
            lost,
            written,
            self._slowest,
        )


def _hashes(informer: InformerProcess) -> list[str]:
    return [it.hash for it in informer.states()]
