"""The flags of member and controller. Here only where the member listens, which costs no import."""

DEFAULT_LISTEN = "127.0.0.1:10553"
PREFIX = "POOL_"
