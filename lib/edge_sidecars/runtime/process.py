"""What a process owes its surroundings: obeys signals, keeps memory small, says why it ends.

Knows no event loop, only what it asks of one. Guarantee: the second signal ends the process,
whatever it is waiting for.
"""

import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.version import VERSION as VERSION  # for those that import it from here

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

SECOND_SIGNAL = 1
BAD_INPUT = 2
# Bytes; smaller ones are used again.
LARGE = 1024 * 1024
# malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def install_signal_handlers(
    loop: "AbstractEventLoop", stop: Callable[[], None], *, logger: logging.Logger
) -> None:
    """`stop` is called once, in the loop."""
    is_second = False

    def obey() -> None:
        nonlocal is_second
        if is_second:
            os._exit(SECOND_SIGNAL)
        is_second = True
        logger.info("terminating")
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, obey)


def freeze_gc(*, young: int | None = None) -> None:
    """Everything imported and loaded stays for good: not to be walked by every collection. `young`:
    objects made since the last collection that begin another (700 of Python's own accord)."""
    gc.collect()
    gc.freeze()
    if young is not None:
        gc.set_threshold(young, *gc.get_threshold()[1:])
    gc.enable()


def set_malloc_thresholds() -> None:
    """Memory of `LARGE` bytes and more goes back to the system as soon as it is free. By itself
    glibc begins to keep blocks of up to 32 MiB when the first one was freed, and 64 MiB of free
    memory (mallopt(3), M_MMAP_THRESHOLD). Another C library is left as it is."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE)
        mallopt(_M_TRIM_THRESHOLD, LARGE)


def release_free_memory() -> None:
    """What imports and the start have freed goes back to the system (malloc_trim(3)): 0.5 MiB.
    Another C library is left as it is."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def raise_descriptor_limit() -> int:
    """To what the container allows, as Go's runtime does; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@contextmanager
def exit_on_bad_input(program: str, *kinds: type[Exception]) -> Iterator[None]:
    """Ends the process with status 2 and one line on standard error after `BadInput`, or one of
    `kinds`, even from a task. Raises `SystemExit`."""
    refused: tuple[type[Exception], ...] = (BadInput, *kinds)
    refusal = None
    try:
        yield
    except* refused as group:
        refusal = first_cause(group)
    if refusal is not None:
        # A message of gRPC or YAML has several lines.
        sys.stderr.write(f"{program}: {' '.join(str(refusal).split())}\n")
        raise SystemExit(BAD_INPUT)


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """A task's failure comes in a group of the group."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
