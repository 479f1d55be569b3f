"""Random faults for as long as wanted; each prints a verdict."""
