"""What `make bench` plays: takeovers, outages, edits of the Lease, costs."""
