"""Random faults of keepalived's address."""
