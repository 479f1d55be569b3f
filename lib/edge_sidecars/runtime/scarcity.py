"""What this machine or process has run out of: descriptors, memory, disk.

Guarantee: a scarcity at home is distinguished from a failure of a called server, however deep in
the chain of causes it is, and is logged once a minute (limits.md, L6).
"""

import errno
import os
import resource
from typing import Final

from edge_sidecars.runtime.log import fields, logger, sparing

# open(2), socket(2), accept(2), write(2): each says that a limit here is reached.
SCARCITIES: Final = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ENOSPC,
        errno.EDQUOT,
    }
)
# Descriptors that clients never get: for upstream, files and the runtime itself (limits.md, L6).
RESERVED_DESCRIPTORS: Final = 64
_REMEDIES: Final = {
    errno.EMFILE: "raise LimitNOFILE of the unit, or ulimit -n",
    errno.ENFILE: "raise fs.file-max of the machine",
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "raise the quota of the disk",
}


def scarcity(error: BaseException) -> int | None:
    """The errno of what was lacking here; None where that was not the reason."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in SCARCITIES:
            return cause.errno
        if isinstance(cause, MemoryError):
            return errno.ENOMEM
        cause = cause.__cause__ or cause.__context__
    return None


def report(number: int, *, what: str) -> None:
    """`what` has to wait for it."""
    if sparing.allows("scarcity", number, what):
        logger.warning(
            "this process has run out of something",
            extra=fields(
                what=what,
                lack=os.strerror(number),
                remedy=_REMEDIES.get(number, "give it more memory"),
            ),
        )


def is_reserved(descriptor: int) -> bool:
    """Whether only the reserve is left beside this descriptor, the newest: the kernel gives the
    lowest number that is free (open(2)), so that all below it are in use."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and descriptor >= soft - RESERVED_DESCRIPTORS
