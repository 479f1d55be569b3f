"""The state of the demo of GMs with shards: GM's and LC's, and who owns what.

Owns which GMs are still to be added. Nothing here knows how it is shown.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from edge_sidecars.sedna_api.core.kinds import KINDS
from tools.demo.sedna.ring import Ring
from tools.demo.sedna.small_jobs import SmallJobs
from tools.demo.sedna.state import SednaState
from tools.harness.pods.gm import GmPod


@dataclass
class ShardState:
    """`spares`: GMs that were never started."""

    sedna: SednaState
    ring: Ring
    small_jobs: SmallJobs
    spares: list[GmPod]

    @property
    def living(self) -> list[GmPod]:
        return [pod for pod in self.sedna.system.gms if pod.name not in self.sedna.absent]

    def objects_of(self, pod: GmPod) -> int:
        """How many fall into its shards."""
        observer = self.sedna.system.api_observer
        uids = (it["metadata"]["uid"] for kind in KINDS for it in observer.objects(kind.singular))
        return self.by_owner(uids)[pod.name]

    def by_owner(self, uids: Iterable[str]) -> Counter[str]:
        """How many objects are whose, by name."""
        return Counter(map(self.ring.owner_of, uids))

    def drawn(self) -> str:
        """The GM's number for each shard, `-` where nobody owns it."""
        numbers = {pod.name: str(index) for index, pod in enumerate(self.sedna.system.gms)}
        owners = self.ring.owners()
        drawn = (numbers.get(owners.get(shard, ""), "-") for shard in range(self.ring.shards))
        return "".join(drawn)

    def add(self) -> GmPod:
        """Starts a GM that was not there before; returns at once."""
        pod = self.spares.pop()
        pod.start(wait=False)
        self.sedna.absent.discard(pod.name)
        return pod
