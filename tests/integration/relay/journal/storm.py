"""A process that commits as fast as it can to the journal in a directory, and says what is
committed: `cursor name version` per line. Killed by whoever started it."""

import asyncio
import sys
from pathlib import Path

from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from tests.unit.relay.journal.journal_history import cursors, listed, moved, scope

STREAMS = [scope(f"stream-{number}") for number in range(4)]
SPACE = "cursors"


async def follow(journal: Journal, stream: ListScope, cursor: int) -> None:
    while True:
        target = cursor + 1 + cursor % 5
        move = listed(stream, target) if target % 97 == 0 else moved(stream, cursor, target)
        # With the stream, always: they are one commit.
        await journal.commit(move, Blob(SPACE, stream.namespace.encode(), b"%d" % target))
        cursor = target
        sys.stdout.write(f"{stream.namespace} {cursor}\n")
        sys.stdout.flush()


async def storm(directory: Path) -> None:
    journal = await Journal.open(directory)
    found = cursors(await journal.load())
    for stream in STREAMS:
        if stream not in found:
            await journal.commit(listed(stream, 0))
    await asyncio.gather(*(follow(journal, s, found.get(s, 0)) for s in STREAMS))


if __name__ == "__main__":
    asyncio.run(storm(Path(sys.argv[1])))
