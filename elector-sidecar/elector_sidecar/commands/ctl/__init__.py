"""`kubectl elector`, which is `elector-sidecar ctl`: elections as the API server has them.

command     the table of sub-commands, from arguments to the exit status
verb        what a sub-command is, and how it writes for people and programs
cluster     the API server as kubectl finds it; failures name the missing right
candidates  which pods take part, by their spec
moves       switchover, hold, resume: annotates the Lease, and waits
status, term_history, lease_list, shard_owners   one sub-command each
completion  the words for kubectl's own completion
"""
