"""relay-sidecar beside the API server that it stands for, in one run, with the same load.

world       API server, pods, relays            load, load/  the load program, in Go
bench       families and options
targets     what is to be reached (pure)        kubeconfigs  for clients of a relay
reads       list and get; shards: of a shard    fanout       watchers and their CPU
sharing     many equal clients                  memory       at rest, used, at the peak
start       to the first answer                 offline, recovery, slow: faults
"""
