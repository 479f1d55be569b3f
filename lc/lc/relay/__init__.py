"""Mode relay: objects come from the API through the pod's relay, reports go into OwnNodeReports.

relay_link    all of it put together, and whether the relay reaches the API
selection     which objects concern this node
intake        one collection into the store, whatever the disk does
node_reports  reports into this node's OwnNodeReports, which are pruned again
report_api    OwnNodeReports as the API has them, and whether an object is gone
"""

from lc.relay.relay_link import RelayLink

__all__ = ["RelayLink"]
