"""What a member asks on its own node, each second: the relay about the link, kubelet whether it
runs, the elector whether this node leads.

Guarantee: what does not answer counts as no: the link is down, kubelet silent, no leader known.
"""

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final, Never

from edge_sidecars.kubeapi import ApiClient, ApiError, Plain, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.process import VERSION
from pool_sidecar.core.lan_state import MAX_TERM, MAX_TRANSITIONS
from pool_sidecar.core.peers import STANDSTILL
from pool_sidecar.member.member import Member

# Seconds (pool.md 2).
EVERY: Final = 1.0
TIMEOUT: Final = 0.9
# Bytes; a relay's /status names its streams.
LONGEST: Final = 4 * 1024 * 1024


def local_client(url: str) -> ApiClient:
    """Of a process on this node."""
    return ApiClient(Plain(url), user_agent=f"pool-sidecar/{VERSION}", max_body=LONGEST)


async def follow_link(member: Member, relay: ApiClient) -> Never:
    while True:
        asked_at = boottime()
        status = await _asked(relay, "/status", "the relay")
        is_up = is_link_up(status)
        now = boottime()
        # On a suspended machine no deadline runs: what it answered before is no answer.
        is_up_to_date = now - asked_at <= STANDSTILL
        is_up = is_up and is_up_to_date
        member.pool.own.observed(is_up=is_up, now=now)
        try:
            member.pool.streams.observed(status if is_up_to_date else {}, now)
        except ValueError as error:
            _log("the relay", error)
        member.heartbeat.link_observed(is_up=member.pool.own.is_up(now), now=now)
        member.advance(now)
        await asyncio.sleep(EVERY)


async def follow_kubelet(member: Member, kubelet: ApiClient) -> Never:
    while True:
        asked_at = boottime()
        try:
            await kubelet.fetch("GET", "/healthz", timeout=TIMEOUT, pooled=True)
            member.kubelet_at = asked_at
        except (ApiError, Unreachable) as error:
            _log("kubelet", error)
        await asyncio.sleep(EVERY)


async def follow_elector(member: Member, elector: ApiClient) -> Never:
    """Where this node may lead: elsewhere none runs."""
    while True:
        asked_at = boottime()
        may_lead = member.directory.may_lead
        found = claim(await _asked(elector, "/leader", "the elector")) if may_lead else None
        if found is None:
            member.pool.claim.void()
        else:
            transitions, remaining = found
            member.pool.claim.observed(transitions=transitions, valid_until=asked_at + remaining)
        await asyncio.sleep(EVERY)


def is_link_up(status: Mapping[str, Any]) -> bool:
    """The own link, by a relay's /status document; not up unless it says so."""
    match status:
        case {"link": {"ownIsUp": True}}:
            return True
    return False


def claim(leader: Mapping[str, Any]) -> tuple[int, float] | None:
    """leaseTransitions and seconds that are left, by an elector's /leader document."""
    match leader:
        case {
            "isLeader": True,
            "leaseTransitions": int(transitions),
            "remainingSeconds": int() | float() as remaining,
        } if -math.inf < remaining < math.inf and 0 <= transitions <= MAX_TRANSITIONS:
            return transitions, float(min(max(remaining, 0.0), MAX_TERM))
    return None


async def _asked(client: ApiClient, path: str, whom: str) -> Mapping[str, Any]:
    """Empty where there is no answer."""
    try:
        return await client.request("GET", path, timeout=TIMEOUT, pooled=True)
    except (ApiError, Unreachable) as error:
        _log(whom, error)
        return {}


def _log(whom: str, error: ApiError | Unreachable | ValueError) -> None:
    if sparing.allows("probe", whom):
        logger.warning("no answer on this node", extra=fields(of=whom, why=error))
