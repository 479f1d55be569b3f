"""`make images`: one Dockerfile for all components; `assemble` alone says what is in an image."""

# The registry and the path before the name of each image of ours, until a release names its own.
# Nobody can serve that host name (RFC 6761), so that no node pulls an image from somebody else.
OWN_IMAGES = "registry.invalid/edge-sidecars"
