"""elector-sidecar beside client-go's leader election, in one run, on a real API server.

pace        waiting that Ctrl-C ends                 poller      /readyz of every pod, from outside
candidate   a client-go pod                          timeline    what the replies say (pure)
side        one Lease with its pods                  samples     what was measured (pure)
install     the sidecar as an image would have it    rows        the issue's table (pure)
takeover, outage, lease_edits, frozen: faults        cost, startup, readyz: what it costs
"""
