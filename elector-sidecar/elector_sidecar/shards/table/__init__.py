"""Pure: the table of shards, one Lease that says which member owns which shard.

ranges        the hash, the range of each shard, `shardSelector`
shard_table   format, digest, which table follows which
table_state   the table as this member knows it, and how sure it may be of it
table_plan    what to write next: takes, hand-overs, repairs, fences
table_writes  the bodies of these writes
"""
