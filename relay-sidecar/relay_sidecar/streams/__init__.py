"""Streams: what is cached of upstream, and what reads and watches it."""
