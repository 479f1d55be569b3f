"""The rounds of `GET /state`: each peer every 2 s, none waits for another.

Guarantee: what a round learnt reaches the core in the turn of the loop in which it ended; one in
which this process paused, or slept through on a suspended machine whose deadlines do not run, has
learnt nothing (N8).
"""

import asyncio
from typing import Final, Never

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.peers import ROUND, STANDSTILL
from pool_sidecar.core.pool_member import Verdict
from pool_sidecar.lan.client import NoAnswer, PeerClient
from pool_sidecar.member.member import Member

# Seconds; a round that took its whole deadline is not followed by one at once.
MIN_PAUSE: Final = 0.2


async def follow_peers(member: Member) -> Never:
    """A task for each peer, as the directory has them."""
    running: dict[str, tuple[PeerClient, asyncio.Task[None]]] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            for name, (client, task) in tuple(running.items()):
                if member.clients.get(name) is not client:
                    task.cancel()
                    del running[name]
            for name, client in member.clients.items():
                if name not in running:
                    running[name] = client, group.create_task(_follow(member, client))
            await member.changed(ROUND)


async def _follow(member: Member, client: PeerClient) -> None:
    name = client.peer.name
    before: Verdict | None = None
    while True:
        began = boottime()
        found: LanState | NoAnswer
        try:
            found = await client.state()
        except NoAnswer as error:
            found = error
        now = boottime()
        if now - began > STANDSTILL:
            # The answer, or that there was none, is of before.
            client.close()
        elif isinstance(found, NoAnswer):
            member.pool.peers.failed(name, found.sign, now)
            logger.debug("no state", extra=fields(peer=name, why=found))
        else:
            member.pool.peers.answered(name, found, now)
        member.advance(now)
        standing = member.pool.peers.standing(name, now)
        verdict = None if standing is None else standing.verdict
        if verdict is not before:
            before = verdict
            shown = "unknown" if verdict is None else verdict.value
            logger.info("verdict", extra=fields(peer=name, verdict=shown))
            member.touch()
        await asyncio.sleep(max(began + ROUND - now, MIN_PAUSE))
