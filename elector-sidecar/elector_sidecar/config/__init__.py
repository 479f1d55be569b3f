"""The flags of the elector and their values. Here only where it listens, which costs no import."""

# The port of contrib's examples, so that clients of the drop-in find it.
DEFAULT_LISTEN = "127.0.0.1:4040"
PREFIX = "ELECTOR_"
