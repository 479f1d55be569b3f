"""`relay-sidecar node` with its sub-commands, and `relay-sidecar in-cluster`."""
