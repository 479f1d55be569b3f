"""The directory: this node's PoolMember by name, then those of its pool, through its relay.

The relay has both on its disk: a member that starts while the node is cut off knows its neighbours.
It answers while cut only to a token that it has asked upstream about, so each new one is shown to
it at once: a reboot finds the newest.
The elector of this node learns the name of the pool's Lease from what is found here.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Never

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.kubeapi.reflector import reflect
from pool_sidecar.core.pool_member import PATH, POOL_LABEL, PoolMember
from pool_sidecar.member.lease_name import keep_lease_named
from pool_sidecar.member.member import Member

# Seconds between two attempts; a relay starts beside this process.
LONGEST_DELAY: Final = 4.0
# Seconds between two looks at the token; kubelet renews it each 48 minutes, and when it restarts.
TOKEN_INTERVAL: Final = 2.0


class _MemberSink:
    """A sink of `reflect`."""

    def __init__(self, changed: Callable[[Sequence[PoolMember]], None]) -> None:
        self._found: dict[str, PoolMember] = {}
        self._changed = changed

    def replaced(self, documents: Sequence[PoolMember], version: int) -> None:
        self._found = {it.name: it for it in documents}
        self._tell()

    def changed(self, document: PoolMember) -> None:
        self._found[document.name] = document
        self._tell()

    def deleted(self, document: PoolMember) -> None:
        self._found.pop(document.name, None)
        self._tell()

    def at(self, version: int) -> None:
        """Nothing here depends on it."""

    def _tell(self) -> None:
        self._changed(tuple(self._found.values()))


class DirectoryFollower:
    def __init__(
        self, member: Member, relay: ApiClient, token: WatchedFiles[str] | None = None
    ) -> None:
        """`token`: what `relay` asks for."""
        self._member = member
        self._relay = relay
        self._token = token
        # None: not known yet.
        self._pool: str | None = None
        self._own_changed = asyncio.Event()

    async def run(self) -> Never:
        async with asyncio.TaskGroup() as group:
            lease_file = self._member.config.lease_file
            if lease_file is not None:
                group.create_task(keep_lease_named(lease_file, lambda: self._pool))
            while True:
                following = group.create_task(self._follow())
                await self._token_changed()
                following.cancel()
                await asyncio.wait([following])

    async def _token_changed(self) -> None:
        before = self._newest_token()
        while True:
            await asyncio.sleep(TOKEN_INTERVAL)
            if self._newest_token() != before:
                return

    def _newest_token(self) -> str | None:
        try:
            return None if self._token is None else self._token.get()
        except (OSError, ValueError):
            # Raised where it is asked for.
            return None

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_own())
            while True:
                self._own_changed.clear()
                pool = self._pool
                following = group.create_task(self._follow_pool(pool)) if pool else None
                while self._pool == pool:
                    await self._own_changed.wait()
                    self._own_changed.clear()
                if following is not None:
                    following.cancel()

    async def _follow_own(self) -> None:
        name = self._member.config.node
        params = {"fieldSelector": f"metadata.name={name}"}
        await self._reflect(_MemberSink(self._found_own), params)

    async def _follow_pool(self, pool: str) -> None:
        params = {"labelSelector": f"{POOL_LABEL}={pool}"}
        await self._reflect(_MemberSink(self._member.follow), params)

    async def _reflect(self, sink: _MemberSink, params: dict[str, str]) -> None:
        await reflect(
            self._relay,
            PATH,
            decode=PoolMember.parse,
            sink=sink,
            params=params,
            longest_delay=LONGEST_DELAY,
            is_optional=True,
        )

    def _found_own(self, members: Sequence[PoolMember]) -> None:
        own = next(iter(members), None)
        if own is not None:
            self._member.announcements.found(own.status)
        self._pool = "" if own is None else own.pool
        if not self._pool:
            self._member.follow(())
        self._own_changed.set()
