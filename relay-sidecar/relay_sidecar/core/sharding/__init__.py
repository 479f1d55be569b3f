"""What an API server that knows no shards answered, reduced to those of a shard selector.

json_filter  lists, Tables, watches
target       what upstream is asked

For what is passed on: what the relay holds is selected like by labels (`StreamView`). Guarantees:
objects pass as upstream sent them, or not at all; bookmarks and errors of a watch pass; a list says
in `metadata.shardInfo` which shards it is of; what cannot be read is `Malformed`.
"""
