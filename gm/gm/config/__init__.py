"""The flags of GM and their values. Here only where it listens, which costs no import."""

DEFAULT_LISTEN = "127.0.0.1:9001"
PREFIX = "GM_"
