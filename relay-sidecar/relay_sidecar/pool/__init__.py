"""`--pool`: what the pool-sidecar of the node says, and what follows from it.

feature     the door: what the relay opens
sources     what a line of /sources says, and which source a stream has; pure
detour      the lines of /sources; connections over a neighbour while it lends
feeds       pool-scoped streams from the hub
hub_trust   whether a hub is believed: own rights, checks by chance
pool_reads  what peers may read here
"""
