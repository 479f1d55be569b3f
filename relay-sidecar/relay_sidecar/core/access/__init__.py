"""Who may, with `--access caller`, as pure machines.

authorizer     what a caller wants to do, and what is decided about it
authorization  what upstream answered about callers, and for how long it holds
access_rules   from what upstream lists that a user may, the questions that decide
expiring_map   facts with their age, bounded, persisted
token_families tokens that follow each other, and what is asked with them
node_components  which accounts are those of what a node needs in order to have pods
offline_clock  for how long the machine has run, and since upstream answered
"""
