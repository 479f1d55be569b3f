"""GMs and LCs as real processes on a real API server, beside what the contract says of Sedna's.

world       API server, clients, fleets         manifests    the smallest of each kind (pure)
bench       families and options
targets     what is to be reached (pure)        datasets     bursts, restarts, statuses, rest
jobs        through GM, and doubled             bare         the same writes without a GM
crowd       memory with many LCs (crowd_lcs)    latency      from the API to an LC
failover    a GM that is gone, as LCs see it    storm        what changes cost on the link
shards      three GMs that all decide
"""
