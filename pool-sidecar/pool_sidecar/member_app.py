"""One process of the member: startup, running, shutdown, in this order."""
