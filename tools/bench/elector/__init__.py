"""elector-sidecar beside client-go's leader election, in one run, on a real API server.

bench       families and options                     poller      /readyz of every pod, from outside
side        one Lease with its pods                  timeline    what the replies say (pure)
install     the sidecar as an image would have it    targets     what is to be reached (pure)
takeover, outage, lease_edits, frozen: faults        cost, startup, readyz: what it costs
"""
