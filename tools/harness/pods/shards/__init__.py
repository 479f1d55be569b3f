"""Electors with shards: a fleet of them, and what stands for one before its clients."""
