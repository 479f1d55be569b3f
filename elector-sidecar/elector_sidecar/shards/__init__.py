"""Pure: active-active. Which shards of a hash ring this member owns, and what it writes for that.

ranges          the hash, the range of each shard, `shardSelector`
table           the table of shards: format, digest, which table follows which
member_lease    what a member says in its own Lease
balance         quotas: who gives up and who takes how many
members         the Leases of all members: who lives, whose term has ended for good
membership      the own Lease: term, settled, the table that it goes by
table_state     the table as this member knows it, and how sure it may be of it
ownership       shards owned and handed over; what the main was told
lease_stream    the one list and watch that everything comes by
shard_moves     which shards are free, what this member gives up or takes
table_plan      what to write next: takes, hand-overs, repairs, fences
table_writes    the bodies of these writes
pace            how long to leave in peace what was refused
shard_view      what this member tells: its shards, members, owners
shard_election  one member: reports in, commands out
"""
