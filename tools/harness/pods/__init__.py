"""Each program as processes, one module for each."""
