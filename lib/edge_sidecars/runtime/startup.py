"""The first moments of a process, while what it is made of is imported, or is not there.

Guarantee: a signal ends it, as long as nothing has begun. The kernel keeps from a container's first
process every signal that it has not asked for, and kubelet would wait for the grace period's end.
"""

import gc
import os
import signal
import sys

BAD_INPUT = 2


def prepare_imports() -> None:
    """Precedes the imports; `process.install_signal_handlers` and `process.freeze_gc` end it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    # Importing makes garbage only to be kept; this is a fifth of the time to the first answer.
    gc.disable()


def missing_extra(error: ModuleNotFoundError, *, program: str, extra: str) -> int:
    """The exit status of a program whose extra was not installed, after one line that names it."""
    sys.stderr.write(
        f"{program}: the Python package {error.name} is missing: install the extra {extra}; in a "
        f"checkout: pip install '.[{extra}]'\n"
    )
    return BAD_INPUT
