"""Pure: no I/O, clock, chance or log. What the watch contract means is decided here.

stream                one upstream list+watch: what is asked, and what an answer means
access                who may, with `--access caller`
sharding              answers of upstream, reduced to a shard
link                  is upstream reachable, and what a probe asks
upgrade_request       what a request for another protocol says: which, and who asks
caching               what is never cached, what is evicted last; how old an answer is
verdicts              of this node on its neighbours in the pool
min_resource_version  the lowest resourceVersion of an answer: reads are monotonic
node_needs            what kubelet needs for the pods of its node, read off the pods
token_request         from a TokenRequest to the key of its answer

What is common to Kubernetes (objects, selectors, list options, Status) is in
`edge_sidecars.apimachinery`.
"""
