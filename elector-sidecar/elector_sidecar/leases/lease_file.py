"""`--lease-file`: the name of the Lease, in a file that may come later and may change.

A DaemonSet's containers have the same flags on each node, but contend for the Lease of their node's
pool: pool-sidecar's member writes its name. Owns the question which Lease is named, asked each
second. Guarantees: what is no Lease name counts as none, with the reason; a name counts once two
readings in a row agree, so that a file that is just being written changes nothing.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from edge_sidecars.runtime.daemon_thread import in_daemon_thread
from edge_sidecars.runtime.formats.rfc1123 import is_subdomain

INTERVAL = 1.0
# Bytes; a name and white space around it are shorter.
MAX_SIZE = 1024


class LeaseFile:
    """`reason` says why no Lease is named; "" while one is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reason = f"{path} was not read yet"

    async def named(self) -> str:
        """The name, as soon as there is one."""
        return await self._until(lambda name: name != "")

    async def differs_from(self, name: str) -> str:
        """What the file says instead, as soon as it is not `name`: "" for no name."""
        return await self._until(lambda found: found != name)

    async def _until(self, is_wanted: Callable[[str], bool]) -> str:
        before = await in_daemon_thread(self._read)
        while True:
            await asyncio.sleep(INTERVAL)
            found = await in_daemon_thread(self._read)
            if found == before and is_wanted(found):
                return found
            before = found

    def _read(self) -> str:
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_SIZE + 1)
        except OSError as error:
            self.reason = f"no Lease is named: {self.path}: {error.strerror or error}"
            return ""
        text = content.decode(errors="replace").strip()
        if not text:
            self.reason = f"no Lease is named: {self.path} is empty"
            return ""
        if not is_subdomain(text):
            self.reason = (
                f"no Lease is named: {self.path} has {text!r:.80}, which is no Lease name: "
                "lower-case, digits, - and ."
            )
            return ""
        self.reason = ""
        return text
