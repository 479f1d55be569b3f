"""The image archives of `make release`: the same bytes on every machine and on every day.

The Dockerfile says how a container of an image runs, `tools.images.assemble` what is in it. No
engine builds them: it would need an emulated machine for arm64, and it stores when it built.
"""
