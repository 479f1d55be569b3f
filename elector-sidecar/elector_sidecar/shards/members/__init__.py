"""Pure: the members of an election for shards, each with a Lease of its own.

member_lease      what a member says in its own Lease
succession        going on as the member that a process of the same pod was
membership        the own Lease: term, settled, the table that it goes by
observed_members  the Leases of all members: who lives, whose term has ended for good
"""
