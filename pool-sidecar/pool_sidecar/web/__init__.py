"""What both processes serve on loopback."""
