"""Who may, with `--access caller`, as pure machines.

resource_attributes  what a caller wants to do, as authorizers see it
authorization        what upstream answered about callers, and for how long it holds: `verdict`
expiring_map         facts with their age, bounded, persisted
offline_clock        for how long the machine has run, and since upstream answered
tokens               bearer tokens
"""
