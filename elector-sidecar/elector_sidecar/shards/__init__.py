"""Active-active: which shards of a hash ring this member owns, and what it writes for that.

Pure:

table/          the table of shards: its format, what this member knows of it, what it writes
members/        the Leases of the members: the own one, and those of all
balance         quotas: who gives up and who takes how many
ownership       shards owned and handed over; what the main was promised
lease_stream    the one list and watch that everything comes by
shard_moves     which shards are free, what this member gives up or takes
pace            how long to leave in peace what was refused
shard_view      what this member tells: its shards, members, owners
shard_election  one member: reports in, commands out

Around them:

machine         what the pump runs
shard_client    the Leases of all members, and the table, over kubeapi
document        the /shards document
endpoints       /shards, /owns
"""
