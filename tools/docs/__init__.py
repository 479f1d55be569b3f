"""`python -m tools.docs`: what manuals repeat of the source, and the recorded interface.

`source` reads flags, metrics and log messages, `reasons` the texts of answers; `tables` writes
them between markers into the pages; `interface` writes interface.txt. `--check` writes nothing
and fails on a difference. `python -m tools.docs.prose` holds the pages to plain English.
"""
