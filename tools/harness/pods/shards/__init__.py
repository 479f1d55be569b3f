"""Electors with shards: a fleet of them, and a stand-in that its clients ask."""
