"""A proxy that delays, cuts, garbles and counts what passes."""
