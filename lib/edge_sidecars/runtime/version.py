"""The version of this release, in status documents and user agents."""

VERSION = "0.2.0"
