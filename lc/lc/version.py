"""The release, as told to GM, to the API server and to people."""

VERSION = "0.2.0"
