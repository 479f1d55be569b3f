"""Electors with shards, as a fleet."""
