"""Pure: no I/O, clock, chance or log. What the watch contract means is decided here.

What is asked of upstream
reflection            list, watch, resume or relist: what to do next, as stream_commands
paged_list            one list, page by page
catch_up              whether an open watch has caught up
list_decoder          a list that is decoded while it arrives
confirmation          when a watch is compared with a list, and how much of it
stream_backoff        how long upstream is left alone after a failure
link                  is upstream reachable; probe_request: what a probe asks

How new an answer is
min_resource_version  the lowest resourceVersion of an answer: reads are monotonic
answer_age            how old an answer of another relay was when it came

Who may (`--access caller`)
resource_attributes   what a caller wants to do, as authorizers see it
authorization         what upstream answered about callers, and for how long it holds;
                      authorization_verdict: what is answered from that
expiring_map          facts with their age, bounded, persisted
offline_clock         for how long the machine has run, and since upstream answered
tokens                bearer tokens

What is common to Kubernetes (objects, selectors, list options, Status) is in
`edge_sidecars.apimachinery`.
"""
