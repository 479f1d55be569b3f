"""The pure cores: what a pool's documents say, and what follows from them."""
