"""The Lease over kubeapi: performs an election's commands and reports each outcome to it.

Owns the two paths, the requests' deadlines, their count, and what is said of a failure: once in the
log, and of a refusal (403) also to who asks, with the RBAC rules that are needed. Every `read` and
`write` ends in exactly one report. Only a renewal with nothing open beside it uses a kept
connection, so that a dead one costs it a second attempt, and a takeover, a release or a read
nothing; unless setting one up takes long, where all use one that has just answered.
"""

import math
from collections.abc import Callable
from contextlib import aclosing

from edge_sidecars.apimachinery.watch_events import Bookmark, EventType, decode_object
from edge_sidecars.kubeapi import (
    ApiClient,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    Unreachable,
    parse_event,
)
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from elector_sidecar.config.config import Config
from elector_sidecar.core.commands import Purpose, ReadLease, WatchLease, WriteLease
from elector_sidecar.core.election import Election
from elector_sidecar.core.lease import MalformedLease, parse_lease

# The API server ends a watch after a random time of 30 to 60 minutes anyway; asked for here so
# that a forgotten connection is not for ever.
WATCH_SECONDS = 3600
# One line about the same trouble so often.
COMPLAINT_INTERVAL = 60.0


class LeaseClient:
    """`report` is called after each report to the election that may ask for something."""

    def __init__(
        self, server: ApiClient, config: Config, election: Election, *, report: Callable[[], None]
    ) -> None:
        self._server = server
        self._config = config
        self._election = election
        self._report = report
        self._timeout = config.timing.request_timeout
        self._collection_path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases"
        self._path = f"{self._collection_path}/{config.lease}"
        self._complaints: dict[str, float] = {}
        # When each verb was refused last, if it was not allowed since.
        self._forbidden: dict[str, float] = {}
        self._watched_at = math.inf
        self._open_writes = 0
        self.requests: dict[tuple[str, str], int] = {}

    def refusal(self, now: float) -> str:
        """What the API server forbids at present, and the rules that would allow it; "" if
        nothing."""
        is_watching = now - self._watched_at > self._timeout
        verbs = [
            verb
            for verb, at in self._forbidden.items()
            if now - at < COMPLAINT_INTERVAL and not (verb == "watch" and is_watching)
        ]
        if not verbs:
            return ""
        return (
            f"the API server forbids {', '.join(verbs)} (403): needs {needed_rules(self._config)}"
        )

    async def read(self, read: ReadLease) -> None:
        try:
            lease = parse_lease(await self._call("get", "GET", self._path))
        except NotFound:
            self._election.read_answered(read.id, boottime(), None)
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain("reading the Lease failed", "get", error)
            self._election.read_failed(read.id, boottime(), retry_after=_retry_after(error))
        else:
            self._election.read_answered(read.id, boottime(), lease)
        self._report()

    async def write(self, write: WriteLease) -> None:
        verb = "create" if write.creates else "update"
        method, path = ("POST", self._collection_path) if write.creates else ("PUT", self._path)
        election = self._election
        pooled = self._open_writes == 0 and self._renews(write)
        self._open_writes += 1
        try:
            lease = parse_lease(
                await self._call(verb, method, path, body=write.body, pooled=pooled)
            )
        except (Conflict, NotFound) as error:
            if isinstance(error, NotFound) and write.creates:
                self._complain("creating the Lease failed", verb, error)
                election.write_refused(write.id, boottime())
            else:
                election.write_conflicted(write.id, boottime())
        except ApiError as error:
            self._complain("writing the Lease failed", verb, error)
            report = election.write_refused if error.is_refusal else election.write_lost
            report(write.id, boottime(), retry_after=error.retry_after)
        except (Unreachable, MalformedLease) as error:
            self._complain("writing the Lease failed", verb, error)
            election.write_lost(write.id, boottime())
        else:
            election.write_answered(write.id, boottime(), lease)
        finally:
            self._open_writes -= 1
        self._report()

    def _renews(self, write: WriteLease) -> bool:
        return (
            write.purpose is Purpose.ACQUIRE_OR_RENEW
            and not write.creates
            and self._election.holds_record
        )

    async def watch(self, watch: WatchLease) -> None:
        is_orderly = False
        self._watched_at = boottime()
        try:
            is_orderly = await self._follow(watch)
        except Gone:
            logger.debug("the watch expired")
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain("watching the Lease failed", "watch", error)
        self._election.watch_ended(watch.id, boottime(), is_orderly=is_orderly)
        self._report()

    async def _follow(self, watch: WatchLease) -> bool:
        """Reports each event; True when the server ended the watch in order."""
        params = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._config.lease}",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        if watch.resource_version is not None:
            params["resourceVersion"] = str(watch.resource_version)
        self._count("watch", "sent")
        lines = self._server.lines(self._collection_path, open_timeout=self._timeout, params=params)
        async with aclosing(lines):
            async for line in lines:
                event = parse_event(line, decode_object)
                if isinstance(event, Bookmark):
                    continue
                self._forbidden.pop("watch", None)
                if self._election.event_arrived(
                    watch.id,
                    boottime(),
                    parse_lease(event.object),
                    is_deleted=event.type is EventType.DELETED,
                ):
                    self._report()
        return True

    async def _call(
        self, verb: str, method: str, path: str, *, body: object = None, pooled: bool = False
    ) -> object:
        self._count(verb, "sent")
        try:
            answer = await self._server.request(
                method, path, timeout=self._timeout, body=body, pooled=pooled
            )
            self._forbidden.pop(verb, None)
            return answer
        except (ApiError, Unreachable) as error:
            code = str(error.status) if isinstance(error, ApiError) else "unreachable"
            self._count(verb, code)
            raise

    def _count(self, verb: str, result: str) -> None:
        key = (verb, result)
        self.requests[key] = self.requests.get(key, 0) + 1

    def _complain(self, message: str, verb: str, error: Exception) -> None:
        """WARNING once a minute for the same trouble; once for all verbs where RBAC forbids, with
        all that is needed, instead of one verb after the other."""
        told: dict[str, object] = {"error": str(error)}
        now, key = boottime(), f"{message} {type(error).__name__}"
        if isinstance(error, Forbidden):
            told["missing_rule"] = needed_rules(self._config)
            self._forbidden[verb] = now
            key = "forbidden"
        is_new = now - self._complaints.get(key, -math.inf) >= COMPLAINT_INTERVAL
        if is_new:
            self._complaints[key] = now
        (logger.warning if is_new else logger.debug)(message, extra=fields(**told))


def needed_rules(config: Config) -> str:
    """What the Role must have, as one line of YAML; RBAC cannot limit `create` to a name."""
    leases = 'apiGroups: ["coordination.k8s.io"], resources: ["leases"]'
    return (
        f"Role in namespace {config.namespace}: "
        f'[{{{leases}, resourceNames: ["{config.lease}"], verbs: ["get", "watch", "update"]}}, '
        f'{{{leases}, verbs: ["create"]}}]'
    )


def _retry_after(error: Exception) -> float | None:
    return error.retry_after if isinstance(error, ApiError) else None
