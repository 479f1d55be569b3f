"""Members and the controller of one pool together, in virtual time."""
