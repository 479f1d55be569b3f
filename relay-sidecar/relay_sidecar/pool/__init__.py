"""The pool of this node: what its pool-sidecar says, and the way over a neighbour's link.

follower  the lines of /sources
detour    connections over a neighbour while it lends, and what changes when it begins and ends
"""
