"""Pools: nodes of one site that lend each other their links, and their controller in the cloud.

`member_app` and `controller_app` are the two processes; both have their rules in `core`.
"""
