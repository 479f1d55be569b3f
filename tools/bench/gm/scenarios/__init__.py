"""What `make bench-gm` plays: datasets, jobs, failovers, crowds of LCs."""
