"""Random faults of a pool: nodes as network namespaces, real controllers."""
