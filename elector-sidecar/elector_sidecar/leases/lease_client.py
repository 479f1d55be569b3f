"""The Lease over kubeapi: performs a command, and returns what happened.

Owns the two paths, the requests' deadlines, their count, and the report of a failure: once in the
log, and of a refusal (403) also to who asks, with the RBAC rules that are needed. Knows no
election. Only a renewal with nothing open beside it uses a pooled connection, so that a dead one
costs it a second attempt, and a takeover, a release or a read nothing. Where setting
one up takes long, all use one that has just answered.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

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
from edge_sidecars.runtime.log import Sparing, fields, logger
from edge_sidecars.runtime.metrics import Histogram
from elector_sidecar.config.config import Config
from elector_sidecar.core.lease import Lease, MalformedLease, parse_lease
from elector_sidecar.core.lease_watch import WatchLease
from elector_sidecar.core.lease_writes import WriteLease
from elector_sidecar.core.moves.candidate_pods import unfit

# The API server ends a watch after a random time of 30 to 60 minutes anyway; asked for here so
# that a forgotten connection is not for ever.
WATCH_SECONDS = 3600
# One line about the same trouble so often.
COMPLAINT_INTERVAL = 60.0
# Seconds of a renewal: etcd on a disk takes milliseconds, --request-timeout is 3 by default.
RENEWAL_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
LEASES = 'apiGroups: ["coordination.k8s.io"], resources: ["leases"]'


@dataclass(frozen=True)
class Found:
    """A read was answered; `lease` None: it does not exist."""

    lease: Lease | None


@dataclass(frozen=True)
class Applied:
    """A write was answered with the record as it was stored."""

    lease: Lease


@dataclass(frozen=True)
class Conflicted:
    """409, or 404 for an update: the stored record is another one. Not applied."""


@dataclass(frozen=True)
class Refused:
    """Another 4xx. Not applied."""

    retry_after: float | None


@dataclass(frozen=True)
class Lost:
    """No usable answer, or a 5xx: a write may have been applied, and may still be."""

    retry_after: float | None


class OnEvent(Protocol):
    def __call__(self, lease: Lease, *, is_deleted: bool) -> None: ...


class LeaseClient:
    def __init__(self, server: ApiClient, config: Config, *, name: str | None = None) -> None:
        """Of the Lease `name`, by default the one that the flags name."""
        name = name or config.lease
        self._server = server
        self._config = config
        self._timeout = config.timing.request_timeout
        self._collection_path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases"
        self._path = f"{self._collection_path}/{name}"
        self._selector = f"metadata.name={name}"
        self._complaints = Sparing(every=COMPLAINT_INTERVAL)
        # When each verb was refused last, if it was not allowed since.
        self._forbidden: dict[str, float] = {}
        # The message of an admission policy or webhook; "" where RBAC forbade it.
        self._denial = ""
        self._watched_at = math.inf
        self._open_writes = 0
        self.requests: dict[tuple[str, str], int] = {}
        # How long renewals took: those that were acknowledged, and those that were not.
        self.renewals = {it: Histogram(RENEWAL_BOUNDS) for it in ("ok", "failed")}

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
        refused = ", ".join(verbs)
        if self._denial:
            return f"the API server forbids {refused} (403): {self._denial}"
        return f"the API server forbids {refused} (403): needs {self._needed_rules()}"

    def _needed_rules(self) -> str:
        """What the Role must have, as one line of YAML; RBAC cannot limit `create` to a name."""
        named = f'resourceNames: ["{self._config.lease}"], verbs: ["get", "watch", "update"]'
        return self._role(f'{{{LEASES}, {named}}}, {{{LEASES}, verbs: ["create"]}}')

    def _role(self, rules: str) -> str:
        return f"Role in namespace {self._config.namespace}: [{rules}]"

    async def read(self) -> Found | Lost:
        try:
            return Found(parse_lease(await self._call("get", "GET", self._path)))
        except NotFound:
            return Found(None)
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain("reading the Lease failed", "get", error)
            return Lost(_retry_after(error))

    async def write(self, write: WriteLease) -> Applied | Conflicted | Refused | Lost:
        began_at = boottime()
        outcome = await self._write(write)
        if write.renews:
            result = "ok" if isinstance(outcome, Applied) else "failed"
            self.renewals[result].observe(boottime() - began_at)
        return outcome

    async def _write(self, write: WriteLease) -> Applied | Conflicted | Refused | Lost:
        verb = "create" if write.creates else "update"
        method, path = ("POST", self._collection_path) if write.creates else ("PUT", self._path)
        pooled = self._open_writes == 0 and write.renews
        self._open_writes += 1
        try:
            return Applied(
                parse_lease(await self._call(verb, method, path, body=write.body, pooled=pooled))
            )
        except (Conflict, NotFound) as error:
            if isinstance(error, NotFound) and write.creates:
                self._complain("creating the Lease failed", verb, error)
                return Refused(None)
            return Conflicted()
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain("writing the Lease failed", verb, error)
            return failure_of(error)
        finally:
            self._open_writes -= 1

    async def why_no_candidate(self, pod: str) -> str:
        """Why this pod cannot take the Lease, as far as this one may read pods; "" if it may."""
        path = f"/api/v1/namespaces/{self._config.pod_namespace}/pods/{pod}"
        try:
            found = await self._call("get pod", "GET", path)
        except NotFound:
            return f"there is no pod {pod} in namespace {self._config.pod_namespace}"
        except (ApiError, Unreachable) as error:
            logger.debug("the successor is not known", extra=fields(pod=pod, error=error))
            return ""
        return unfit(found, self._config.lease)

    async def watch(self, watch: WatchLease, on_event: OnEvent) -> bool:
        """Calls `on_event` until the watch ends; whether the server ended it in order."""

        def on_object(item: object, is_deleted: bool) -> None:
            on_event(parse_lease(item), is_deleted=is_deleted)

        return await self._watch(
            "watching the Lease failed",
            {"fieldSelector": self._selector},
            watch.resource_version,
            on_object,
        )

    async def _watch(
        self,
        complaint: str,
        selector: Mapping[str, str],
        resource_version: int | None,
        on_object: Callable[[object, bool], None],
    ) -> bool:
        """Calls `on_object(object, is_deleted)`, which may raise `MalformedLease`, until the watch
        ends; whether the server ended it in order."""
        self._watched_at = boottime()
        try:
            await self._follow(selector, resource_version, on_object)
        except Gone:
            logger.debug("the watch expired")
        except (ApiError, Unreachable, MalformedLease) as error:
            self._complain(complaint, "watch", error)
        else:
            return True
        return False

    async def _follow(
        self,
        selector: Mapping[str, str],
        resource_version: int | None,
        on_object: Callable[[object, bool], None],
    ) -> None:
        params = {"watch": "true", **selector, "timeoutSeconds": str(WATCH_SECONDS)}
        if resource_version is not None:
            params["resourceVersion"] = str(resource_version)
        self._count("watch", "sent")
        lines = self._server.lines(self._collection_path, open_timeout=self._timeout, params=params)
        async with aclosing(lines):
            async for line in lines:
                event = parse_event(line, decode_object)
                if isinstance(event, Bookmark):
                    continue
                # As good as a read, which is not asked for then.
                self._allowed("watch", "get")
                on_object(event.object, event.type is EventType.DELETED)

    async def _call(
        self,
        verb: str,
        method: str,
        path: str,
        *,
        body: object = None,
        pooled: bool = False,
        params: Mapping[str, str] | None = None,
    ) -> object:
        self._count(verb, "sent")
        try:
            answer = await self._server.request(
                method, path, timeout=self._timeout, body=body, pooled=pooled, params=params
            )
            self._allowed(verb)
            return answer
        except (ApiError, Unreachable) as error:
            code = str(error.status) if isinstance(error, ApiError) else "unreachable"
            self._count(verb, code)
            raise

    def _allowed(self, *verbs: str) -> None:
        """Where one is allowed that was not, the rights have changed, as while an API server
        starts: what it says of the others now is not known."""
        if any(verb in self._forbidden for verb in verbs):
            self._forbidden.clear()

    def _count(self, verb: str, result: str) -> None:
        key = (verb, result)
        self.requests[key] = self.requests.get(key, 0) + 1

    def _complain(self, message: str, verb: str, error: Exception) -> None:
        """WARNING once a minute for the same trouble; once for all verbs where RBAC forbids, with
        all that is needed, instead of one verb after the other."""
        details: dict[str, object] = {"error": str(error)}
        cause = f"{message} {type(error).__name__}"
        if isinstance(error, Forbidden):
            # RBAC's answers say who "cannot" do what; admission's have the policy's own words.
            is_rbac = " cannot " in str(error)
            self._denial = "" if is_rbac else str(error)
            if is_rbac:
                details["missing_rule"] = self._needed_rules()
            self._forbidden[verb] = boottime()
            cause = f"forbidden {self._denial}"
        is_due = self._complaints.allows(cause)
        (logger.warning if is_due else logger.debug)(message, extra=fields(**details))


def failure_of(error: Exception) -> Refused | Lost:
    is_refusal = isinstance(error, ApiError) and error.is_refusal
    return (Refused if is_refusal else Lost)(_retry_after(error))


def _retry_after(error: Exception) -> float | None:
    """Seconds that the server asked to wait, if it did."""
    return error.retry_after if isinstance(error, ApiError) else None
