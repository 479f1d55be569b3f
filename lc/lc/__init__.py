"""Local Controller: what Sedna does on one edge node."""
