"""Pure: no I/O, clock, chance or log. What the watch contract means is decided here.

objects      the bytes of an object, an event, a page; what can be read from them
facets       what selectors ask of an object
rewriting    an object's bytes with another version, or its metadata alone
go_text      texts as Go reads and writes them
labels       label selectors; their grammar is in label_parser and label_syntax
fields       field selectors
scope        what a stream or a request covers; resource_name: of what
resources    which fields a resource can be selected by; discovery and OpenAPI
request      what a request asks, in Kubernetes' words: list_options, accept
status       the Status objects of refusals
store        the objects, window and cursor of one stream
reflection   list, watch, resume or relist: what to do next upstream
backoff      how long upstream is left alone after what went wrong
floor        how new an answer must be, so that nobody goes backwards
link         is the upstream reachable?
"""
