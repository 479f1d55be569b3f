"""Writes what this member says of itself: its PoolMember's status, and its Node's CloudLink."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final, Never

from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.runtime.log import fields, logger, sparing
from pool_sidecar.core.announcements import CloudLink
from pool_sidecar.core.pool_member import GROUP, PATH, status_patch
from pool_sidecar.member.cloud import Cloud
from pool_sidecar.member.member import Member

EVERY: Final = 1.0
# Seconds after a failure; twice as many each time that the API server refuses, at most LONGEST.
RETRY: Final = 5.0
LONGEST: Final = 60.0
CONDITION: Final = f"{GROUP}/CloudLink"
MERGE: Final = "application/merge-patch+json"
# Merges conditions by their type: kubelet's and ours stay apart.
STRATEGIC: Final = "application/strategic-merge-patch+json"


async def announce(member: Member, cloud: Cloud) -> Never:
    backoff = Backoff(first=RETRY, longest=LONGEST)
    while True:
        delay = EVERY
        if cloud.is_there and member.directory.pool:
            try:
                await _write(member, cloud)
                sparing.forget("announcement")
                backoff.succeeded()
            except (ApiError, Unreachable) as error:
                if sparing.allows("announcement"):
                    logger.warning("this member's status is not written", extra=fields(why=error))
                delay = backoff.failed() if isinstance(error, ApiError) else RETRY
        await asyncio.sleep(delay)


async def _write(member: Member, cloud: Cloud) -> None:
    node, announcements = member.config.node, member.announcements
    now = boottime()
    situation = member.situation(now)
    status = announcements.status(situation, now)
    condition = announcements.condition(situation, now)
    if status is not None:
        path = f"{PATH}/{node}/status"
        await cloud.request("PATCH", path, status_patch(status), content_type=MERGE)
        announcements.written(status, boottime())
    if condition is not None:
        body = condition_patch(condition, datetime.now(UTC))
        await cloud.request("PATCH", f"/api/v1/nodes/{node}/status", body, content_type=STRATEGIC)
        announcements.condition_written(condition)


def condition_patch(condition: CloudLink, now: datetime) -> dict[str, Any]:
    stamp = rfc3339.stamp(now)
    document = {
        "type": CONDITION,
        "status": "True" if condition.is_up else "False",
        "reason": "OwnLink" if condition.is_up else "ViaPeer",
        "message": "" if condition.is_up else f"the link of {condition.via} is borrowed",
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }
    return {"status": {"conditions": [document]}}
