"""Every schedule of a few faults on the pure cores, each state once: `make explore`."""
