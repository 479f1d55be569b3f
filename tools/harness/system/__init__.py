"""GMs and LCs before the real controllers: workloads, faults, and what is checked after them."""
