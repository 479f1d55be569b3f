"""The image archives of `make release`: the same bytes on every machine and on every day.

A Dockerfile says how a container of an image runs; what is in it, `tools.images.assemble`, and
keepalived's own Dockerfile. No engine builds them: it would need an emulated machine for arm64, and
it stores when it built.
"""
