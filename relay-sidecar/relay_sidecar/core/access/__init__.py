"""Who may, with `--access caller`, as pure machines.

authorizer      what a caller wants to do, and what is decided about it
authorization   what upstream answered about callers, and for how long it holds
expiry          facts with their age, and the clock that counts it
token_families  tokens that follow each other, and what is asked with them
node_identity   the certificate of a node, and the accounts of what it needs in order to have pods
"""
