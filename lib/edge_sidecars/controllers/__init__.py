"""What controllers share: writes that are sent only while they may be, and Events for people."""
