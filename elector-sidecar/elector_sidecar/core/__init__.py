"""Pure: no I/O, clock, chance or log. Every rule about when it is safe to lead is here.

timing          the durations, and which sets are unsafe
lease           the wire format
observed_lease  may this Lease be taken, and from when on?
term            the writes that prove a term of leadership
lease_watch     when to read and to watch
lease_writes    what to write
view            what is true at one moment
election        what to do next, and what is true now; drives all above
lifecycle       should this pod lead at all: health gate, drain, resignation, termination
"""
