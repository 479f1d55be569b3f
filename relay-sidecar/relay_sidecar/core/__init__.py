"""Pure: no I/O, clock, chance or log. What the watch contract means is decided here.

stream                one upstream list+watch: what is asked, and what an answer means
access                who may, with `--access caller`
sharding              answers of upstream, reduced to a shard
link                  is upstream reachable, or another relay that answers from its cache
probe_request         what a probe asks
upgrade_request       what a request for another protocol says: which, and who asks
staleness             how old an answer is, and how it says so
verdicts              of this node on its neighbours in the pool
min_resource_version  the lowest resourceVersion of an answer: reads are monotonic
unknown_changes       objects that a write has changed, whose new state no answer has shown
listed_states         at which version upstream held what a part of a stream holds
node_scopes           what the node itself listed or watched: it is evicted last
node_needs            what kubelet needs for the pods of its node, read off the pods
token_request         from a TokenRequest to the key of its answer; token_request_protobuf: its form
never_kept            of which resources nothing is ever kept
pieces                bytes of a long body in the pieces that it is made of
sealed_form           which bytes are a key of --keep-secrets, what a sealed row is bound to

What is common to Kubernetes (objects, selectors, list options, Status) is in
`edge_sidecars.apimachinery`.
"""
