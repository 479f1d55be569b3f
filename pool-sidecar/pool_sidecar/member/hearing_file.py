"""Keeps whom this member has heard in the data directory.

After a power cut of a whole site, or while the DaemonSet is rolled out, members that have just
started know a node that does not come back, and can bear witness that it is gone.
Guarantees: the file is whole or not there, and one that cannot be read or written costs what it
had, with one line in the log; a disk that hangs stops nothing else. It is written with each round
of the minute after a peer was away, and every five minutes: not always, which would wear out flash.
"""

import asyncio
from functools import partial
from pathlib import Path
from typing import Final, Never

from edge_sidecars.runtime.cli.values import describe_failure
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.daemon_thread import in_daemon_thread
from edge_sidecars.runtime.log import fields, logger, sparing
from pool_sidecar.core.hearing import MAX_BYTES, decode, encode
from pool_sidecar.core.peers import Peers
from pool_sidecar.lan.certificate import write_private

FILE: Final = "heard.json"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# Seconds between two looks, and between two writes where nothing is new.
LOOK: Final = 2.0
REFRESH: Final = 300.0
# Seconds that a process which ends waits for its disk.
LAST: Final = 1.0


def read_hearing(folder: Path, peers: Peers) -> None:
    """Before the directory is known."""
    path = folder / FILE
    try:
        if not path.exists():
            return
        with path.open(encoding="ascii") as file:
            text = file.read(MAX_BYTES)
        peers.restore(decode(text, now=boottime(), boot_id=_boot_id()))
    except (OSError, ValueError) as error:
        logger.warning(
            "who was heard before this start is not known",
            extra=fields(file=path, why=describe_failure(error)),
        )


async def keep_hearing(folder: Path, peers: Peers) -> Never:
    """And once more at the end."""
    written_at, written = boottime() - REFRESH, -1
    try:
        while True:
            await asyncio.sleep(LOOK)
            now = boottime()
            is_due = peers.news != written or now - written_at >= REFRESH
            if is_due and peers.hearing(now):
                written_at, written = now, peers.news
                await _write(folder, peers)
    finally:
        try:
            async with asyncio.timeout(LAST):
                await _write(folder, peers)
        except TimeoutError:
            pass  # The disk hangs: the file is as it was.


async def _write(folder: Path, peers: Peers) -> None:
    now, path = boottime(), folder / FILE
    heard = peers.hearing(now)
    if not heard:
        return
    try:
        text = encode(heard, now=now, boot_id=_boot_id())
        await in_daemon_thread(partial(write_private, path, text))
        sparing.forget("hearing")
    except OSError as error:
        if sparing.allows("hearing"):
            logger.warning(
                "who was heard is not kept",
                extra=fields(file=path, why=describe_failure(error)),
            )


def _boot_id() -> str:
    """Raises OSError."""
    return _BOOT_ID.read_text(encoding="ascii").strip()
