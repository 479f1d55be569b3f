"""What `make bench-relay` plays: reads, watches, memory, starts, outages."""
