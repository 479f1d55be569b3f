"""The sub-commands beside `run`: check, rbac, shards, status."""
