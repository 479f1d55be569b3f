"""The first moments of a process, while what it is made of is imported.

Guarantee: a signal ends it, as long as nothing has begun. The kernel keeps from a container's first
process every signal that it has not asked for, and kubelet would wait for the grace period's end.
"""

import gc
import os
import signal


def begin() -> None:
    """To be called before the imports; `process.obey_signals` and `process.tidy` end it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    # Importing makes garbage only to be kept; this is a fifth of the time to the first answer.
    gc.disable()
