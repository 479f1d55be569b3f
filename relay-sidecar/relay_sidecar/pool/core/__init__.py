"""Pure: what feeds the streams of a pool.

pool_sources   what the pool-sidecar said, and for how long that holds
source_choice  which hub feeds a stream, or the API server
"""
