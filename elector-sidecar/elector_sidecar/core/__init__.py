"""Pure: no I/O, clock, chance or log. Whoever wants to know when it is safe to lead reads here.

election     what to do next, and what is true now; drives all below
judgement    may this Lease be taken, and from when on?
term         the writes that prove a term of leadership
reading      when to read and to watch
writing      what to write
view         what is true at one moment
lease        the wire format
timing       the durations, and which sets are unsafe
tenure       should this pod lead at all: health gate, drain, resignation, termination
"""
