"""What this build is called."""

VERSION = "0.1.0"
