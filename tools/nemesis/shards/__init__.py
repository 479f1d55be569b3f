"""Random faults of electors with shards."""
