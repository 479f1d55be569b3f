"""Who is to lead next, as far as it is asked for. Pure, like all of `core`.

moves           switchovers, holds and priorities: when to wait, when to give up
annotations     their wire formats
pending         what is asked and which candidates the record names, for people
candidate_pods  which pods contend for a Lease
"""
