"""A program that an elector wraps, and the pod in which it does."""
