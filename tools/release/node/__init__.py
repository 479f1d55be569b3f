"""`make release-node`: what a node needs to have the relay as its part, in one file."""
