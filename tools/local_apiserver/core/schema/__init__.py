"""Schemas of built-in types and CRDs: structure, validation, defaulting, pruning. Pure."""
