"""How long shards are without an owner, how many move, and what it costs."""
