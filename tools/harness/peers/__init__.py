"""Leader election candidates that are not ours: what the elector meets on a shared Lease."""
