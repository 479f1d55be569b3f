"""One drawn schedule of members and faults, and what must hold at each step of it.

Everything follows from the seed. Checked: S1 and S6 at every step of any member, also beside
candidates of client-go that contend for the table's Lease; after all faults are over S2 (every
shard owned), S3 (shares differ by at most one), S4 (nothing moves any more).
"""

import copy
import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import HOLDER_ANNOTATION
from elector_sidecar.core.timing import Timing
from elector_sidecar.shards.members.member_lease import MEMBER_ANNOTATION
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL, TABLE_ANNOTATION
from tests.unit.elector.core.clientgo import ClientGo
from tests.unit.elector.core.world import Clock, Link, Trouble, World
from tests.unit.elector.shards.leases import LeaseServer, TableServer
from tests.unit.elector.shards.member import NAMESPACE, TABLE, Process, Settings

TIMINGS = (Timing(4.0, 1.0, 1.5), Timing(6.0, 1.0, 2.0), Timing(15.0, 2.0, 3.0))
RATES = (0.975, 1.0, 1.025)
NETWORK = ("cut", "cut all", "lose", "break", "refuse", "slow requests", "slow answers")
WATCH = ("slow events", "silent watch", "ended watch", "no watch")
PROCESS = ("freeze", "freeze before write", "crash", "leave", "join", "namesake", "pause")
EDITS = (
    "table nonsense",
    "table deleted",
    "table restored",
    "table blanked",
    "table stolen",
    "table unlabelled",
    "table bare",
    "member deleted",
    "member blanked",
    "member stolen",
    "member edited",
    "member unlabelled",
    "member restored",
)


@dataclass(frozen=True)
class Scenario:
    seed: int
    kinds: tuple[str, ...]
    most_faults: int = 12
    shards: int = 16
    # Candidates of client-go beside the members; whether each judges by its own LeaseDuration.
    peers: tuple[bool, ...] = ()


class Run:
    def __init__(
        self, scenario: Scenario, *, make: Callable[..., ShardElection] = ShardElection
    ) -> None:
        self.scenario = scenario
        self.random = Random(scenario.seed)
        self.world = World(scenario.seed)
        self.server = LeaseServer()
        self.table_server = TableServer(self.server, TABLE)
        self.world.server = self.table_server
        self.peers: list[ClientGo] = []
        self.is_healed = False
        self._make = make
        self._number = 0
        self.processes: list[Process] = []
        # Names of those that start again in a while.
        self.crashed: list[str] = []
        self.tables: list[str] = []
        self.copies: dict[str, list[dict[str, Any]]] = {}
        self.timing = self.random.choice(TIMINGS)
        metadata = {"namespace": NAMESPACE, "name": TABLE, "labels": {ELECTION_LABEL: TABLE}}
        if self.random.random() < 0.8:
            self.server.post({"metadata": metadata, "spec": {}})
        for pod in range(self.random.randint(2, 5)):
            self.start(f"pod-{pod}")
        for is_old in scenario.peers:
            self.start_peer(is_old=is_old)

    def start_peer(self, *, is_old: bool) -> None:
        """It starts after the members do, at some time."""
        random, link = self.random, Link(self.world)
        clock = Clock(self.world, random.choice(RATES), 5000.0, 1.7e9 + random.uniform(-9, 9))
        duration = int(self.timing.lease_duration)

        def start() -> None:
            if self.is_healed:
                return
            identity = f"client-go-{len(self.peers)}"
            peer = ClientGo(
                self.world, clock, link, identity=identity, lease_duration=duration, is_old=is_old
            )
            self.peers.append(peer)
            peer.on_leading.append(lambda _: self.beside_peers())

        self.world.after(random.choice((0.0, 5.0, 30.0)), start)

    @property
    def living(self) -> list[Process]:
        return [process for process in self.processes if not process.is_dead]

    def restart(self, before: Process) -> Process:
        """In the same pod: one that starts in another, `start` starts."""
        return self._started(before.settings, before.clock, before)

    def start(self, name: str) -> Process:
        random = self.random
        settings = Settings(
            name,
            self.timing,
            self.scenario.shards,
            settle=random.choice((1.0, 5.0)),
            confirms_after=random.choice((0.005, 0.5, math.inf)),
            is_told=random.random() < 0.8,
        )
        clock = Clock(
            self.world,
            random.choice(RATES),
            1000.0 * (self._number + 1),
            1.7e9 + random.choice((0.0, 5.0, -3600.0)),
        )
        return self._started(settings, clock, None)

    def _started(self, settings: Settings, clock: Clock, before: Process | None) -> Process:
        self._number += 1
        process = Process(
            *(self.world, self.server, clock, settings),
            number=self._number,
            make=self._make,
            before=before,
        )
        process.on_step.append(self.exclusive)
        self.processes.append(process)
        process.start()
        return process

    def exclusive(self, process: Process) -> None:
        """S1 and S6, for frozen ones too: they may wake at this moment, and their mains work."""
        mine, works = set(process.owned()), process.worked_on()
        for other in self.processes:
            if other is process or other.is_dead or not (mine or works):
                continue
            theirs = set(other.owned())
            both = mine & theirs
            assert not both, f"{process.identity} and {other.identity} own {sorted(both)}"
            early = (mine & other.worked_on()) | (theirs & works)
            assert not early, f"{process.identity}, {other.identity}: handed over {sorted(early)}"
        self.beside_peers()

    def beside_peers(self) -> None:
        """No candidate of client-go leads beside an owner."""
        leading = [it.identity for it in self.peers if it.is_leading]
        if not leading or not self.table_server.is_lawful:
            return
        owners = [it.identity for it in self.living if it.owned() or it.worked_on()]
        assert not owners, f"{leading} and {owners} work at {self.world.time}"

    # ── the play ──

    def play(self) -> None:
        self.world.run(until=self.random.uniform(0.0, 12.0))
        for _ in range(self.random.randint(1, self.scenario.most_faults)):
            self._strike(self.random.choice(self.scenario.kinds))
            self._take_copies()
            self.world.run(until=self.world.time + self.random.choice((0.0, 0.1, 1.0, 3.0, 8.0)))
        self.heal()

    def heal(self) -> None:
        for process in self.living:
            process.heal()
            if process.election.election.intent is Intent.ABSTAIN:
                process.set_intent(Intent.CONTEND)
        self.is_healed = True
        for peer in self.peers:
            peer.kill()
        while self.crashed:
            self.start(self.crashed.pop())
        if all(it.election.election.intent is not Intent.CONTEND for it in self.living):
            self.start("pod-100")
        late = max([0.0, *(p.link.last_arrival - self.world.time for p in self.living)])
        duration = self.timing.lease_duration / min(RATES)
        if self.peers:  # one that led is waited out by 1.2 x before the table begins
            self.world.run(until=self.world.time + 1.2 * duration)
        # What was late arrives, and what it ends has ended; a stolen Lease is waited out by 1.2 x,
        # a silent watch is found, all settle.
        self.world.run(until=self.world.time + late + duration)
        until = self.world.time + 3.5 * duration + 12.0
        while self.world.time < until and not self._is_even():
            self.world.run(until=self.world.time + 0.5)
        assert self._is_even(), f"S2, S3: {self._shares()}"
        before = self._owners()
        self.world.run(until=self.world.time + 3 * duration)
        assert self._owners() == before, "S4: something moved without a change of members"

    def _owners(self) -> dict[str, list[int]]:
        owned = {process.identity: process.owned() for process in self.living}
        return {identity: shards for identity, shards in owned.items() if shards}

    def _shares(self) -> dict[str, int]:
        return {identity: len(owned) for identity, owned in self._owners().items()}

    def _is_even(self) -> bool:
        staying = [
            len(process.owned())
            for process in self.living
            if process.election.election.intent is Intent.CONTEND
        ]
        staying = self._without_namesakes(staying)
        is_whole = sum(self._shares().values()) == self.scenario.shards
        return is_whole and max(staying) - min(staying) <= 1

    def _without_namesakes(self, shares: list[int]) -> list[int]:
        """Of two pods with one name only one holds the Lease."""
        pods = {process.settings.name for process in self.living}
        return sorted(shares, reverse=True)[: len(pods)]

    # ── the faults ──

    def _strike(self, kind: str) -> None:
        random, world = self.random, self.world
        lasting = random.choice((0.3, 1.0, 4.0, 10.0, 25.0))
        if not self.living:
            self.start("pod-0")
        process = random.choice(self.living)
        if kind.startswith("table "):
            self._edit_table(kind.removeprefix("table "))
        elif kind.startswith("member "):
            self._edit_member(process, kind.removeprefix("member "))
        elif kind in TROUBLES:
            process.link.trouble(TROUBLES[kind], lasting=lasting, amount=random.uniform(0.1, 20.0))
        elif kind == "cut all":
            for each in self.living:
                each.link.trouble(Trouble.CUT, lasting=lasting, amount=0.0)
        elif kind == "crash all":
            for each in self.living:
                each.kill()
                self.crashed.append(each.settings.name)
                world.after(lasting, functools.partial(self._restart, each))
        elif kind == "silent watch":
            process.silence_watch()
        elif kind == "ended watch":
            process.end_watch()
        elif kind == "freeze":
            process.freeze(lasting)
        elif kind == "freeze before write":
            process.freezes_before_write = lasting
        elif kind == "crash":
            process.kill()
            self.crashed.append(process.settings.name)
            world.after(random.choice((0.1, 3.0, lasting)), lambda: self._restart(process))
        elif kind == "leave":
            process.leave()
        elif kind == "pause":
            process.set_intent(Intent.ABSTAIN)
            world.after(lasting, lambda: process.set_intent(Intent.CONTEND))
        elif kind == "join":
            self.start(f"pod-{self._number + 10}")
        else:
            assert kind == "namesake", kind
            process.link.trouble(Trouble.CUT, lasting=lasting, amount=0.0)
            self.start(process.settings.name)

    def _restart(self, process: Process) -> None:
        if process.settings.name in self.crashed:
            self.crashed.remove(process.settings.name)
            if self.random.random() < 0.8:
                self.restart(process)
            else:
                self.start(process.settings.name)

    def _take_copies(self) -> None:
        """What somebody may put back later."""
        for name, lease in self.server.leases.items():
            text = (lease.raw["metadata"].get("annotations") or {}).get(TABLE_ANNOTATION)
            if name == TABLE and text is not None:
                self.tables.append(text)
            self.copies.setdefault(name, []).append(copy.deepcopy(dict(lease.raw)))

    def _edit_table(self, how: str) -> None:
        def change(raw: dict[str, Any]) -> None:
            annotations = raw["metadata"]["annotations"]
            text = annotations.get(TABLE_ANNOTATION)
            if how == "nonsense":
                annotations[TABLE_ANNOTATION] = self.random.choice(("", "{}", "null", "[1]"))
            elif how == "restored" and self.tables:
                annotations[TABLE_ANNOTATION] = self.random.choice(self.tables)
            elif how == "blanked":
                raw["spec"]["holderIdentity"] = ""
            elif how == "stolen":
                raw["spec"]["holderIdentity"] = "bogus"
                raw["spec"]["leaseDurationSeconds"] = 1
            elif how == "unlabelled":
                raw["metadata"]["labels"] = {}
            elif how == "bare" and text and "owners" in text:
                content = json.loads(text)
                content["owners"] = [None] * len(content["owners"])
                annotations[TABLE_ANNOTATION] = json.dumps(content)

        if how == "deleted":
            self.server.delete(TABLE)
        else:
            self.server.edit(TABLE, change)

    def _edit_member(self, process: Process, how: str) -> None:
        def change(raw: dict[str, Any]) -> None:
            annotations = raw["metadata"]["annotations"]
            if how == "blanked":
                raw["spec"]["holderIdentity"] = ""
            elif how == "stolen":
                raw["spec"]["holderIdentity"] = "bogus"
                if self.random.random() < 0.5:
                    annotations[HOLDER_ANNOTATION] = "bogus"
            elif how == "unlabelled":
                raw["metadata"]["labels"] = {}
            elif how == "edited" and MEMBER_ANNOTATION in annotations:
                content = json.loads(annotations[MEMBER_ANNOTATION])
                content["term"] += 1
                annotations[MEMBER_ANNOTATION] = json.dumps(content)
            elif how == "restored" and process.lease in self.copies:
                old = copy.deepcopy(self.random.choice(self.copies[process.lease]))
                if old["spec"].get("holderIdentity"):  # else it is a release by hand
                    annotations.clear()
                    annotations.update(old["metadata"].get("annotations") or {})
                    raw["spec"] = old["spec"]

        if how == "deleted":
            self.server.delete(process.lease)
        else:
            self.server.edit(process.lease, change)


TROUBLES = {
    "cut": Trouble.CUT,
    "lose": Trouble.LOSE_ANSWERS,
    "break": Trouble.BREAK,
    "refuse": Trouble.REFUSE,
    "slow requests": Trouble.SLOW_REQUESTS,
    "slow answers": Trouble.SLOW_ANSWERS,
    "slow events": Trouble.SLOW_EVENTS,
    "no watch": Trouble.NO_WATCH,
}
