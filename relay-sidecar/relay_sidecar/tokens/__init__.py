"""Kept answers to TokenRequest, with their disk and their pods: with `--keep-secrets` on a node.

The rules are in `core/token_requests/`.
"""
