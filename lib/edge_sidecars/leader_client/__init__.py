"""For mains in Python: follows the elector of this pod, and says at any moment whether it leads.

    async with LeaderClient("http://127.0.0.1:4040") as leader:
        if leader.may_act(within=2.0):
            ...  # something that takes two seconds at most

Of an elector with `--shards`, which objects are this pod's:

    async with ShardClient("http://127.0.0.1:4040", on_lost=stop) as shards:
        if shards.may_act(uid, within=2.0):
            ...  # something about the object with this uid

`client.py` and `shard_client.py` have the public classes; `lead.py`, `shards.py` and `proof.py`
are their pure arithmetic; `document_stream.py` follows an elector's documents for both.
"""

from edge_sidecars.apimachinery.selection.shard_ranges import fnv1a as hash_of
from edge_sidecars.apimachinery.selection.shard_ranges import shard_of
from edge_sidecars.leader_client.client import LeaderClient
from edge_sidecars.leader_client.lead import LeaderDocument
from edge_sidecars.leader_client.shard_client import ShardClient
from edge_sidecars.leader_client.shards import Shard, ShardsDocument

__all__ = [
    "LeaderClient",
    "LeaderDocument",
    "Shard",
    "ShardClient",
    "ShardsDocument",
    "hash_of",
    "shard_of",
]
