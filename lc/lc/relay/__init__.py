"""Mode relay: objects come from the API through the pod's relay, reports go into NodeReports.

relay_link    all of it put together, and whether the relay reaches the API
selection     which objects concern this node
intake        one collection into the store, whatever the disk does
node_reports  reports into this node's NodeReports, which are pruned again
report_api    NodeReports as the API has them, and whether an object is gone
"""

from lc.relay.relay_link import RelayLink

__all__ = ["RelayLink"]
