"""The Docker engine that runs, or one that is started and ended."""
