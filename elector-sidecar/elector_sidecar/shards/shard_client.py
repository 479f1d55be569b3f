"""The Leases of an election for shards over kubeapi: performs a command, returns what happened.

The own Lease is `LeaseClient`'s; here are those of the others, the table, and the list and watch
by label that all of them come by. Knows no election.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_sidecars.kubeapi import (
    ApiClient,
    ApiError,
    Conflict,
    NotFound,
    Unreachable,
)
from edge_sidecars.runtime.log import logger
from elector_sidecar.config.config import Config
from elector_sidecar.core.lease import Lease, MalformedLease, parse_lease
from elector_sidecar.leases.lease_client import (
    LEASES,
    Applied,
    Conflicted,
    Found,
    LeaseClient,
    Lost,
    Refused,
    failure_of,
)
from elector_sidecar.shards.lease_stream import WatchLeases
from elector_sidecar.shards.members.member_lease import is_foreign
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL
from elector_sidecar.shards.table.table_writes import WriteNamed


@dataclass(frozen=True)
class Listed:
    """The Leases of the election, as of a resourceVersion."""

    leases: tuple[Lease, ...]
    resource_version: int


class ShardLeaseClient(LeaseClient):
    def __init__(self, server: ApiClient, config: Config) -> None:
        super().__init__(server, config, name=config.member_lease)
        self._label = f"{ELECTION_LABEL}={config.lease}"
        self._foreign = ""

    def refusal(self, now: float) -> str:
        return self._foreign or super().refusal(now)

    def _needed_rules(self) -> str:
        """RBAC can limit neither by label nor by prefix (S7)."""
        verbs = '["get", "list", "watch", "create", "update"]'
        return self._role(f"{{{LEASES}, verbs: {verbs}}}")

    async def read(self) -> Found | Lost:
        """Of the own Lease; one that somebody else made is never written."""
        found = await super().read()
        if isinstance(found, Found):
            self._foreign = self._foreign_line(found.lease)
        if self._foreign:
            if self._complaints.allows(self._foreign):
                logger.error(self._foreign)
            return Lost(None)
        return found

    def _foreign_line(self, lease: Lease | None) -> str:
        """Why it is somebody else's; "" if it is not. The label may have been taken off ours."""
        config = self._config
        if lease is None or not is_foreign(lease, config.lease):
            return ""
        return (
            f"the Lease {config.namespace}/{config.member_lease} exists without the label "
            f"{self._label}: it belongs to somebody else; use another --lease, or delete it"
        )

    async def list(self) -> Listed | Refused | Lost:
        params = {"labelSelector": self._label}
        try:
            body: Any = await self._call("list", "GET", self._collection_path, params=params)
            version = int(body["metadata"]["resourceVersion"])
            leases = [lease for item in body["items"] if (lease := _readable(item)) is not None]
        except (ApiError, Unreachable) as error:
            self._complain("listing the election's Leases failed", "list", error)
            return failure_of(error)
        except (KeyError, TypeError, ValueError) as error:
            self._complain("the list of the election's Leases is malformed", "list", error)
            return Lost(None)
        return Listed(tuple(leases), version)

    async def read_named(self, name: str) -> Found | Refused | Lost:
        try:
            return Found(parse_lease(await self._call("get", "GET", self._named(name))))
        except NotFound:
            return Found(None)
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain(f"reading the Lease {name} failed", "get", error)
            return failure_of(error)

    async def write_named(self, write: WriteNamed) -> Applied | Conflicted | Refused | Lost:
        verb, method, path = "update", "PUT", self._named(write.name)
        if write.creates:
            verb, method, path = "create", "POST", self._collection_path
        try:
            return Applied(parse_lease(await self._call(verb, method, path, body=write.body)))
        except (ApiError, Unreachable, MalformedLease) as error:
            if isinstance(error, Conflict) or (isinstance(error, NotFound) and not write.creates):
                return Conflicted()
            self._complain(f"writing the Lease {write.name} failed", verb, error)
            return failure_of(error)

    async def watch_all(self, watch: WatchLeases, on_event: Callable[[Lease, bool], None]) -> bool:
        """Calls `on_event(lease, is_deleted)` until the watch ends; whether it ended in order."""

        def on_object(item: object, is_deleted: bool) -> None:
            lease = _readable(item, needed=self._config.lease)
            if lease is not None:
                on_event(lease, is_deleted)

        return await self._watch(
            "watching the election's Leases failed",
            {"labelSelector": self._label},
            watch.resource_version,
            on_object,
        )

    def _named(self, name: str) -> str:
        return f"{self._collection_path}/{name}"


def _readable(item: Any, *, needed: str = "") -> Lease | None:
    """A Lease that somebody made unusable says nothing: who depends on it reads it by name. Raises
    `MalformedLease` for the one that is `needed`: what comes after it would prove too much."""
    try:
        return parse_lease(item)
    except MalformedLease as error:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if needed and isinstance(metadata, dict) and metadata.get("name") == needed:
            raise
        logger.debug("a Lease of the election is malformed: %s", error)
        return None
