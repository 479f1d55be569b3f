"""Which release this is; told in /status and to the API server."""

VERSION = "0.2.0"
