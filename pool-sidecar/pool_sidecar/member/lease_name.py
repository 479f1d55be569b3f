"""The name of the pool's Lease, in the file from which the elector of this node has it.

Guarantees: the file holds a whole name or is not there; what says the right thing already is not
written again; an elector that runs as another user can read it; a disk that hangs stops nothing
else.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Never

from edge_sidecars.runtime.cli.values import describe_failure
from edge_sidecars.runtime.daemon_thread import in_daemon_thread
from edge_sidecars.runtime.log import fields, logger

PREFIX: Final = "pool-"
MODE: Final = 0o644
# Seconds; the elector looks as often.
INTERVAL: Final = 1.0
# Seconds; a disk that is full now may not be then.
RETRY_AFTER: Final = 10.0


def name_lease(path: Path, pool: str) -> None:
    """`pool`: "" where the node is in none. Raises OSError."""
    if not pool:
        path.unlink(missing_ok=True)
        return
    content = f"{PREFIX}{pool}\n".encode()
    if path.exists() and path.read_bytes() == content:
        return
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.chmod(MODE)
    new.rename(path)


async def keep_lease_named(path: Path, pool: Callable[[], str | None]) -> Never:
    """`pool`: as for `name_lease`; None while it is not known, when the file stays as it is."""
    named: str | None = None
    while True:
        wanted = pool()
        if wanted is not None and wanted != named:
            try:
                await in_daemon_thread(partial(name_lease, path, wanted))
                named = wanted
            except OSError as error:
                logger.warning(
                    "the Lease's name cannot be written",
                    extra=fields(file=path, why=describe_failure(error)),
                )
                await asyncio.sleep(RETRY_AFTER)
        await asyncio.sleep(INTERVAL)
