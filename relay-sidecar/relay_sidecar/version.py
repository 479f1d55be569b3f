"""What this build is called."""

VERSION = "0.2.0"
