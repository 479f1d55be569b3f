"""Members of one election for shards in virtual time, judged at each step (S1, S6)."""

from collections.abc import Callable

from elector_sidecar.core.timing import Timing
from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL, TABLE_ANNOTATION
from tests.unit.elector.core.world import Clock, Trouble, World
from tests.unit.elector.shards.leases import LeaseServer
from tests.unit.elector.shards.member import NAMESPACE, TABLE, Process, Settings

SHARDS = 16
SETTLE = 1.0
TIMING = Timing(15.0, 2.0, 3.0)

Make = Callable[..., ShardElection]


class Ring:
    """Members with exact clocks whose mains confirm after 5 ms."""

    def __init__(
        self,
        make: Make,
        *names: str,
        confirms_after: float = 0.005,
        shards: int = SHARDS,
        timing: Timing = TIMING,
    ) -> None:
        self.make = make
        self.shards = shards
        self.timing = timing
        self.confirms_after = confirms_after
        self.world = World(1)
        self.server = LeaseServer()
        metadata = {"namespace": NAMESPACE, "name": TABLE, "labels": {ELECTION_LABEL: TABLE}}
        self.server.post({"metadata": metadata, "spec": {}})
        self.members: dict[str, Process] = {}
        for name in names:
            self.start(name)

    def start(self, name: str, *, pod: str | None = None) -> Process:
        clock = Clock(self.world, 1.0, 1000.0 * (len(self.members) + 1), 1.7e9)
        settings = Settings(pod or name, self.timing, self.shards, SETTLE, self.confirms_after)
        return self._started(name, settings, clock, None)

    def restart(self, name: str) -> Process:
        """Of its elector alone: in the same pod, beside the same main."""
        before = self.members[name]
        before.kill()
        return self._started(f"{name} again", before.settings, before.clock, before)

    def _started(
        self, name: str, settings: Settings, clock: Clock, before: Process | None
    ) -> Process:
        process = Process(
            *(self.world, self.server, clock, settings),
            number=len(self.members),
            make=self.make,
            before=before,
        )
        process.on_step.append(lambda _: self.exclusive())
        self.members[name] = process
        process.start()
        return process

    def exclusive(self) -> None:
        owned = {it: it.owned() for it in self.living}
        owners = {shard: it for it, shards in owned.items() for shard in shards}
        assert len(owners) == sum(map(len, owned.values())), [
            (it.identity, shards) for it, shards in owned.items()
        ]
        for it in owned:
            others = {shard for shard in it.worked_on() if owners.get(shard, it) is not it}
            assert not others, f"{it.identity}'s main works on {others}"

    @property
    def living(self) -> list[Process]:
        return [it for it in self.members.values() if not it.is_dead]

    def run(self, seconds: float) -> None:
        self.world.run(until=self.world.time + seconds)

    def shares(self) -> list[int]:
        return sorted(len(it.owned()) for it in self.living)

    def requests(self, seconds: float, member: Process) -> int:
        """Those of this member, without renewals of the table."""
        before = member.requests - member.table_renewals
        self.run(seconds)
        return member.requests - member.table_renewals - before

    def annotations(self) -> dict[str, str]:
        return dict(self.server.leases[TABLE].raw["metadata"].get("annotations") or {})

    def text(self) -> str:
        return self.annotations()[TABLE_ANNOTATION]

    def put(self, text: str) -> None:
        self.server.edit(
            TABLE, lambda raw: raw["metadata"]["annotations"].update({TABLE_ANNOTATION: text})
        )


def cut(member: Process, seconds: float) -> None:
    member.link.trouble(Trouble.CUT, lasting=seconds, amount=0.0)
