"""Random faults of electors."""
