"""A member of a pool, and the controller of pools, as processes."""
