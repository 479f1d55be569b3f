"""`make demo MODE=…`: GMs and LCs at work, in each mode of theirs or with shards.

What is imported here is in `tools/requirements/demo.txt`; the modules need more.
"""

from tools.harness.pods.system import MODES

SHARDS = "shards"
DEMO_MODES = (*MODES, SHARDS)
