"""For mains in Python: follows the elector of this pod, and says at any moment whether it leads.

    async with LeaderClient("http://127.0.0.1:4040") as leader:
        if leader.may_act(within=2.0):
            ...  # something that takes two seconds at most

`client.py` is the public class; `lead.py` is its pure arithmetic.
"""

from edge_sidecars.leader_client.client import LeaderClient
from edge_sidecars.leader_client.lead import LeaderDocument

__all__ = ["LeaderClient", "LeaderDocument"]
