"""Random faults of GM and LC."""
