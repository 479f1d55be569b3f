"""Pure: no I/O, clock, chance or log. What becomes of an object, and why a write is refused."""
