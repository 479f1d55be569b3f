"""Pure: no I/O, clock, chance or log. What the watch contract means is decided here.

What is kept
objects        the bytes of an object, an event, a page; what can be read from them
arriving       a list that is read while it arrives
facets         what selectors ask of an object
answer_version what version an answer tells that is passed on, in whichever form
answer_age     how old it was when it came
rewriting      an object's bytes with another version, or its metadata alone
store          the objects, window and cursor of one stream
floor          how new an answer must be, so that nobody goes backwards

What is asked
request        from method and target to verb, resource, namespace, name
list_options   the options of a list or watch; accept: its representation
status         the Status objects of refusals
scope          what a stream or a request covers; resource_name: of what
labels         label selectors; their grammar is in label_parser and label_syntax
fields         field selectors
resources      which fields a resource can be selected by
discovery      the documents of a group out of the aggregated one; openapi: published schemas
memo           what is worked out once for all that ask the same
go_text        texts as Go reads and writes them

What is done upstream
reflection     list, watch, resume or relist: what to do next
confirming     when upstream is asked what there is, beside a watch
backoff        how long upstream is left alone after what went wrong
link           is it reachable? probing: what a probe asks

Who may (`--access caller`)
attributes     what a caller wants to do, as authorizers see it
decisions      what upstream has said about callers, and for how long that stands
ledger         facts with their age, bounded, for the next life too
offline_clock  for how long the machine has run, and since upstream answered
tokens         bearer tokens
"""
