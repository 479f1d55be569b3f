"""LIST of a quarter of 10,000 pods by shardSelector, beside an API server that knows shards.

The API server is one of its own, with the feature gate on.
"""

from urllib.parse import quote

from edge_sidecars.apimachinery.objects import read_page
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from tools.bench.relay.scenarios.reads import CLIENTS, SIZES, Reading, read
from tools.bench.relay.world import Pods, World
from tools.bench.runner import Options
from tools.bench.samples import Result
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import Caller

GATE = "ShardedListAndWatch"
PODS = SIZES[1]
QUARTER = "shardRange(object.metadata.uid,'0x4000000000000000','0x8000000000000000')"
# By clients.
SHARDED = {clients: f"list-shard-{clients}" for clients in CLIENTS}


def shards(world: World, options: Options) -> list[Result]:
    with ControlPlane(features=[GATE]) as plane:
        gated = World(plane, world.folder)
        items = _selected(plane, gated.pods(PODS))
        readings = [
            Reading(name, PODS, clients, items, query=f"&shardSelector={quote(QUARTER)}")
            for clients, name in SHARDED.items()
        ]
        return read(gated, options, readings)


def _selected(plane: ControlPlane, pods: Pods) -> int:
    """How many are in the quarter."""
    listed = Caller(plane.server, context=plane.tls()).get(pods.path)
    scope = ListScope(ResourceName("", "v1", "pods"))
    quarter = scope.residual(scope, shards=ShardSelector.parse(QUARTER))
    assert quarter is not None
    return sum(map(quarter.matches, read_page(listed.body).items))
