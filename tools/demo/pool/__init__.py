"""`make demo MODE=pool`: nodes of a site that lend each other their links, before the real
controllers that evict.

What is imported here is in `tools/requirements/demo.txt`; the modules build a control plane.
"""

POOL = "pool"
