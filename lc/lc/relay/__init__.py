"""Mode relay: objects come from the API through the pod's relay, reports go into OwnNodeReports.

relay_link    which objects concern this node, each collection into the store, the relay's status
node_reports  reports into this node's OwnNodeReports, which are pruned again
report_api    OwnNodeReports as the API has them, and whether an object is gone
"""

from lc.relay.relay_link import RelayLink

__all__ = ["RelayLink"]
