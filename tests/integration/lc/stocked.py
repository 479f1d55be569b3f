"""An LC that nobody reaches: what it knows was stored before, by the store's own code.

Guarantees: what `waiting` returns is what a new process would find, so what survives kill -9.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.report import Report
from lc.store import Store, open_store
from lc.store.database import NAME
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.lc import LcProcess

# tcpmux (RFC 1078), which nobody has served for long.
NOBODY = f"{LOOPBACK}:1"
CUT_OFF = (f"--gm-address={NOBODY}", "--dataset-interval=1s")


def stocked(*documents: Document, flags: Sequence[str] = (), **how: Any) -> LcProcess:
    """Not started yet."""
    lc = LcProcess([*CUT_OFF, *flags], **how)

    async def fill() -> None:
        async with open_store(lc.data_dir) as store:
            await asyncio.gather(*(store.put(each) for each in documents))

    asyncio.run(fill())
    return lc


def change(lc: LcProcess, *documents: Document, gone: Sequence[Document] = ()) -> None:
    """What it finds at its next start."""

    async def put() -> None:
        async with open_store(lc.data_dir) as store:
            await asyncio.gather(
                *(store.put(each) for each in documents),
                *(store.delete(each.key, each.uid) for each in gone),
            )

    assert not lc.is_running
    asyncio.run(put())


def waiting(lc: LcProcess, *, directory: Path | None = None) -> list[Report]:
    """The reports that wait on disk now, whether LC runs or not.

    `directory`: where its data is to be found, default: where LC finds it.
    """
    place = directory or lc.data_dir
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal"):
            source = place / f"{NAME}{suffix}"
            if source.exists():
                shutil.copy(source, Path(folder) / source.name)
        return asyncio.run(_pending(Path(folder)))


async def _pending(directory: Path) -> list[Report]:
    async with open_store(directory) as store:
        return _told(store)


def _told(store: Store) -> list[Report]:
    assert store.note == ""
    return list(store.pending())
