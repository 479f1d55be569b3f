"""Pure: no I/O, clock, chance or log. Every rule about when it is safe to lead is here.

timing          the durations, and which sets are unsafe
lease           the wire format
observed_lease  may this Lease be taken, and from when on?
term            the term of leadership, and the writes that prove it
lease_watch     when to read and to watch
lease_writes    what to write and when; the writes whose outcome is unknown
moves/          who is to lead next: switchovers, holds, priorities; only ever waits longer
history         the last terms of the Lease, for people
resume          may this process go on for one of its pod that died?
candidacy       what one candidate knows and wants, and what that permits
election        one candidate: reports in, commands out
handover        the phases of giving up; what each wants of the Lease
lifecycle       should this pod lead at all: health gate, drain, resignation, termination

From an event of the Lease to the answer of /readyz there are twelve modules:

    lease_client ─► lease            the shell: an event of the watch becomes a Lease
      └► elector                     the pump: reports it, asks both cores what follows
           ├► election ─► lease_watch               is it news?
           │    └► candidacy ─► observed_lease      whose is the record, and until when?
           │         └► lease_writes ─► term        does it prove a write of ours?
           └► lifecycle              does that change what the pod wants?
    endpoints ─► status ─► elector.status(now)      the answer, computed in the request (P2)
"""
