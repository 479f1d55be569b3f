"""`--pool`: what the pool-sidecar of the node says, and what follows from it.

feature         the door: what the relay opens
follower        the lines of /sources
detour          connections over a neighbour while it lends
feeds           pool-scoped streams from the hub, by hub_reads and own_rights
spot_check      whether the hub tells the truth
pool_reads      what peers may read here
shared_streams  which streams are pool-scoped
core            pure
"""
