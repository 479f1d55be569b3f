"""What hypothesis draws: a set of candidates, and faults that strike them one after another.

Times are in units of a twentieth of the lease duration, so that one schedule means the same for
every duration. Guarantees: a run is a function of its `Scenario`; after the last fault the world
heals, and the observer then demands a leader in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from hypothesis import strategies as st

from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease_watch import IDLE_PERIOD
from elector_sidecar.core.timing import FOREIGN_FACTOR, Timing
from tests.unit.elector.core.clientgo import ClientGo
from tests.unit.elector.core.member import Process, Settings
from tests.unit.elector.core.observer import Observer
from tests.unit.elector.core.world import Clock, Link, Trouble, World

UNITS = 20
# The slowest and the fastest clock differ by 4.9 %, just under the assumed epsilon of 5 %.
RATES = (1.0, 0.975, 1.025)
TIMINGS = (
    Timing(lease_duration=6, renew_interval=1, request_timeout=2),
    Timing(lease_duration=4, renew_interval=1, request_timeout=1.5),
    Timing(lease_duration=15, renew_interval=2, request_timeout=3),
)
# Contract, section 7: a leader within L + 2 s after healing.
AFTER_HEALING = 2.0


class Kind(Enum):
    CUT = Trouble.CUT
    LOSE_ANSWERS = Trouble.LOSE_ANSWERS
    SLOW_REQUESTS = Trouble.SLOW_REQUESTS
    SLOW_ANSWERS = Trouble.SLOW_ANSWERS
    SLOW_EVENTS = Trouble.SLOW_EVENTS
    REFUSE = Trouble.REFUSE
    BREAK = Trouble.BREAK
    NO_WATCH = Trouble.NO_WATCH
    SILENT_WATCH = "silent watch"
    ENDED_WATCH = "ended watch"
    CUT_ALL = "cut all"
    FREEZE = "freeze"
    FREEZE_BEFORE_WRITE = "freeze before write"
    FREEZE_BEFORE_ANSWER = "freeze before answer"
    CRASH = "crash"
    WALL_JUMP = "wall jump"
    RELEASE = "release"
    HOLD = "hold"
    ABSTAIN = "abstain"
    LABEL = "label"
    LABELS = "label every second"
    BLANK = "blank"
    STEAL = "steal"
    STEAL_SHORT = "steal short"
    SHORTEN = "shorten"
    LENGTHEN = "lengthen"
    NO_DURATION = "no duration"
    DELETE = "delete"
    REPLACE = "delete and create empty"
    STRATEGY = "strategy"
    STOP_PEER = "stop peer"


EDITS = frozenset(
    {
        Kind.BLANK,
        Kind.STEAL,
        Kind.STEAL_SHORT,
        Kind.SHORTEN,
        Kind.LENGTHEN,
        Kind.NO_DURATION,
        Kind.DELETE,
        Kind.REPLACE,
        Kind.STRATEGY,
    }
)


# What keeps a leader from hearing of an edit, and what makes another candidate look anew.
UNHEARD = (Kind.CUT, Kind.CUT, Kind.FREEZE, Kind.SLOW_EVENTS)
LOOKS = (Kind.CRASH, Kind.CUT, Kind.SILENT_WATCH, Kind.ENDED_WATCH)


@dataclass(frozen=True)
class Fault:
    """`who`: 0 the holder, else somebody else; `lasting` and `amount` mean what the kind says."""

    after: int
    kind: Kind
    who: int
    lasting: int
    amount: int


@dataclass(frozen=True)
class Member:
    rate: float = 1.0
    timing: Timing = TIMINGS[0]


@dataclass(frozen=True)
class Scenario:
    members: list[Member]
    faults: list[Fault]
    seed: int = 0
    peers: int = 0
    begins_empty: bool = True
    takes_missing: bool = False


class Run:
    """Plays one scenario to its end; raises AssertionError where a promise is broken."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World(scenario.seed)
        self.unit = max(m.timing.lease_duration for m in scenario.members) / UNITS
        if scenario.begins_empty:
            self.world.server.create_empty(0.0)
        self.peers = [self._peer(number) for number in range(scenario.peers)]
        self.observer = Observer(self.world, peers=list(self.peers))
        for peer in self.peers:
            peer.on_leading.append(self.observer.peer_leads)
        self._number = 0
        self._no_start_before = 0.0
        self.processes: list[Process] = []
        for index, member in enumerate(scenario.members):
            clock = Clock(self.world, member.rate, 1000.0 * index + 50.0, 1.7e9 + index)
            self.processes.append(self._start(index, clock, Link(self.world)))

    def play(self) -> None:
        moment = 0.0
        for fault in self.scenario.faults:
            moment += fault.after * self.unit
            self.world.run(until=moment)
            self._strike(fault)
        self.heal()

    def heal(self) -> None:
        """No faults any more: a leader in time, and then for ever."""
        world = self.world
        for peer in self.peers:
            peer.link.heal()
            peer.kill()
        for process in self.processes:
            process.link.heal()
            if process.link.watcher is not None and process.link.watcher.is_silent:
                process.link.watcher.fail()
        self._edit({"strategy": None, "preferredHolder": None})
        for index, process in enumerate(list(self.processes)):
            if process.is_dead:
                self._restart(index)
                continue
            process.freezes_before_write = process.freezes_before_answer = 0.0
            process.thaw()
            process.set_intent(Intent.CONTEND)
        bound = self._longest_wait() / min(RATES) + AFTER_HEALING
        if any(change.lease and change.lease.spec.strategy for change in world.server.changes):
            bound += IDLE_PERIOD  # its end is news that a dead watch may not have brought
        # A request that was lost before is only missed when its time is over.
        bound += max(p.open_requests and p.settings.timing.request_timeout for p in self.processes)
        bound += max(0.0, *(link.last_arrival - world.time for link in self._links()))
        bound += max(0.0, self._no_start_before - world.time)
        healed_at = world.time
        while self.observer.led_at < healed_at:
            assert world.time < healed_at + bound, "nobody leads after healing"
            world.run(until=world.time + self.unit)
        world.run(until=world.time + UNITS * self.unit)
        # Contract, section 7: transitions <= faults + 2; a restart of a holder is a fault, too.
        assert self.observer.takeovers <= 2 * len(self.scenario.faults) + 2

    def _longest_wait(self) -> float:
        waits = [member.timing.lease_duration for member in self.scenario.members]
        for change in self.world.server.changes:
            if change.lease is not None:
                duration = change.lease.spec.lease_duration or max(waits)
                is_foreign = change.lease.spec.holder_identity and not change.lease.is_marked
                waits.append(duration * FOREIGN_FACTOR if is_foreign else duration)
        return max(waits)

    # ── the candidates ──

    def _start(self, index: int, clock: Clock, link: Link) -> Process:
        settings = Settings(
            f"pod-{index}", self.scenario.members[index].timing, self.scenario.takes_missing
        )
        self._number += 1
        process = Process(self.world, clock, link, settings, number=self._number)
        self.observer.attend(process)
        process.start()
        return process

    def _restart(self, index: int) -> None:
        old = self.processes[index]
        if self.world.time < self._no_start_before:
            self.world.at(self._no_start_before, lambda: self._restart(index))
        elif old.is_dead:
            self.processes[index] = self._start(index, old.clock, old.link)

    def _peer(self, number: int) -> ClientGo:
        rate = RATES[number % len(RATES)]
        return ClientGo(
            self.world,
            Clock(self.world, rate, 9e4, 1.7e9),
            Link(self.world),
            identity=f"client-go-{number}",
            lease_duration=int(self.scenario.members[0].timing.lease_duration),
            is_old=number % 2 == 1,
        )

    def _target(self, who: int) -> int:
        """The last holder of ours is 0, though it may be robbed; the others follow by order."""
        last = ""
        for change in self.world.server.changes:
            if change.lease is not None and change.lease.is_marked:
                last = change.lease.spec.holder_identity
        order = sorted(
            range(len(self.processes)), key=lambda i: (self.processes[i].identity != last, i)
        )
        return order[who % len(order)]

    # ── the faults ──

    def _strike(self, fault: Fault) -> None:
        index = self._target(fault.who)
        process = self.processes[index]
        lasting, amount = fault.lasting * self.unit, fault.amount * self.unit
        if fault.kind in EDITS:
            self.observer.peers_are_lawful = False
            self._strike_object(fault.kind, amount)
            return
        match fault.kind:
            case Kind.LABEL:
                self._edit({}, annotations={"touched": str(self.world.time)})
            case Kind.LABELS:
                self._label(until=self.world.time + lasting)
            case Kind.CUT_ALL:
                for link in self._links():
                    link.trouble(Trouble.CUT, lasting=lasting, amount=0.0)
            case Kind.STOP_PEER:
                if self.peers:
                    self.peers[fault.who % len(self.peers)].stop()
            case Kind.SILENT_WATCH:
                if process.link.watcher is not None:
                    process.link.watcher.is_silent = True
            case Kind.ENDED_WATCH:
                if process.link.watcher is not None:
                    process.link.watcher.fail()
            case Kind.CRASH:
                process.kill()
                self.world.after(lasting, lambda: self._restart(index))
            case Kind.WALL_JUMP:
                process.clock.wall_offset += (fault.amount - fault.lasting) * 180.0
            case Kind.FREEZE:
                process.freeze(lasting)
            case Kind.FREEZE_BEFORE_WRITE:
                process.freezes_before_write = lasting
            case Kind.FREEZE_BEFORE_ANSWER:
                process.freezes_before_answer = lasting
            case Kind.RELEASE | Kind.HOLD | Kind.ABSTAIN:
                process.set_intent(Intent(fault.kind.value))
                self.world.after(lasting, lambda: process.set_intent(Intent.CONTEND))
            case _:
                trouble = fault.kind.value
                assert isinstance(trouble, Trouble)
                links = self._links()
                link = process.link if fault.who < 4 else links[fault.who % len(links)]
                link.trouble(trouble, lasting=lasting, amount=amount)

    def _label(self, *, until: float) -> None:
        self._edit({}, annotations={"touched": str(self.world.time)})
        if self.world.time + 1.0 < until:
            self.world.after(1.0, lambda: self._label(until=until))

    def _links(self) -> list[Link]:
        return [process.link for process in self.processes] + [peer.link for peer in self.peers]

    def _edit(self, spec: dict[str, object], *, annotations: dict[str, str] | None = None) -> None:
        self.world.server.edit(self.world.time, spec, annotations)

    def _strike_object(self, kind: Kind, amount: float) -> None:
        server = self.world.server
        seconds = max(int(amount), 1)
        match kind:
            case Kind.BLANK:
                self._edit({"holderIdentity": ""})
            case Kind.STEAL:
                self._edit({"holderIdentity": "bogus"})
            case Kind.STEAL_SHORT:
                self._edit({"holderIdentity": "bogus", "leaseDurationSeconds": 1})
            case Kind.SHORTEN:
                self._edit({"leaseDurationSeconds": 1})
            case Kind.LENGTHEN:
                self._edit({"leaseDurationSeconds": 15 + seconds})
            case Kind.NO_DURATION:
                self._edit({"leaseDurationSeconds": None})
            case Kind.STRATEGY:
                self._edit({"strategy": "OldestEmulationVersion"})
            case Kind.DELETE:
                server.delete(self.world.time)
            case Kind.REPLACE:
                server.delete(self.world.time)
                # An empty Lease is free to whoever never saw another one: the manifests ship it.
                if all(process.view().last_contact for process in self.processes):
                    server.create_empty(self.world.time)
                    self._no_start_before = self.world.time + 1.1 * UNITS * self.unit
            case _:
                raise AssertionError(kind)


def faults(
    kinds: Sequence[Kind], *, at_least: int = 0, at_most: int = 12
) -> st.SearchStrategy[list[Fault]]:
    fault = st.builds(
        Fault,
        after=st.one_of(st.integers(0, 6), st.integers(0, 30)),
        kind=st.sampled_from(kinds),
        who=st.sampled_from((0, 0, 0, 1, 1, 2, 3, 4, 5)),
        lasting=st.integers(0, 40),
        amount=st.integers(0, 30),
    )
    return st.lists(fault, min_size=at_least, max_size=at_most)


def members(
    timings: Sequence[Timing] = TIMINGS, *, at_least: int = 1
) -> st.SearchStrategy[list[Member]]:
    member = st.builds(Member, rate=st.sampled_from(RATES), timing=st.sampled_from(timings))
    return st.lists(member, min_size=at_least, max_size=4)


def robberies() -> st.SearchStrategy[list[Fault]]:
    """The leader hears nothing, the object is edited, and somebody else looks anew; then more."""
    few = st.integers(0, 3)

    def fault(
        kinds: Sequence[Kind], *, after: st.SearchStrategy[int], who: st.SearchStrategy[int]
    ) -> st.SearchStrategy[Fault]:
        return st.builds(
            Fault,
            after=after,
            kind=st.sampled_from(kinds),
            who=who,
            lasting=st.integers(0, 30),
            amount=st.integers(0, 30),
        )

    def robbery(late: int) -> st.SearchStrategy[list[Fault]]:
        silence = fault(UNHEARD, after=st.integers(late, late + 12), who=st.just(0))
        edit = fault([kind for kind in Kind if kind in EDITS], after=few, who=few)
        look = fault(LOOKS, after=few, who=st.integers(1, 3))
        return st.one_of(
            st.tuples(silence, edit, look).map(list),
            st.tuples(silence, look, edit, edit, look).map(list),
            st.tuples(look, silence, edit).map(list),
        )

    return st.builds(list.__add__, robbery(3), st.one_of(st.just([]), robbery(5)))
