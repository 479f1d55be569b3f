"""Networks of containers, and their faults."""
