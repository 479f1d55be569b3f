"""`--leader-label`: exactly the leader's pod bears the label, for a Service to select.

The winner labels its own pod and takes the label off the others, because a loser may be the one
that is cut off (KubeEdge #2156); a loser that can still reach the API server takes its own off.
Only pods whose annotation names this Lease are touched. Off the renewal path, patches on change
only. Routing is not fencing: endpoints follow the label after a while.

Guarantee: whatever the API server answers, a pod is patched at most once in `RETRY_DELAY`, and
while this pod leads or waits, the pods are listed and watched again only after a growing delay.
"""

import asyncio
from contextlib import aclosing
from typing import Any

from edge_sidecars.apimachinery.watch_events import Bookmark, EventType, decode_object
from edge_sidecars.kubeapi import (
    ApiClient,
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    Unreachable,
    parse_event,
)
from edge_sidecars.kubeapi.client import MERGE_PATCH
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from elector_sidecar.core.moves.candidate_pods import LEASE_ANNOTATION
from elector_sidecar.elector import Elector

# Seconds before a failed attempt, or a watch that ended, is followed by the next one; twice as long
# each time, up to the limit, until a watch has lasted longer than that.
RETRY_DELAY = 1.0
RETRY_LIMIT = 10.0
MAX_SLEEP = 60.0
WATCH_SECONDS = 600


class LeaderLabel:
    """`key`=`value` on pod `pod_name` of `namespace` while its elector leads."""

    def __init__(
        self, elector: Elector, server: ApiClient, *, pod_name: str, key: str, value: str
    ) -> None:
        self._elector = elector
        self._server = server
        self._pod_name = pod_name
        self._key = key
        self._value = value
        self._selector = {"labelSelector": f"{key}={value}"}
        self._path = f"/api/v1/namespaces/{elector.config.pod_namespace}/pods"
        self._timeout = elector.config.timing.request_timeout
        # None: unknown, as after a start in a pod that bore the label before.
        self._is_labelled: bool | None = None
        # When a pod may be patched again: a webhook may put a label back at once, for ever.
        self._patch_at: dict[str, float] = {}

    @property
    def is_flushed(self) -> bool:
        return self._is_labelled == self._leads()

    async def close(self) -> None:
        """Nothing is on its way once it is settled."""

    async def run(self) -> None:
        backoff = Backoff(first=RETRY_DELAY, longest=RETRY_LIMIT)
        while True:
            if self.is_flushed and not self._leads():
                await self._elector.changed(MAX_SLEEP)
                continue
            leads, began_at = self._leads(), boottime()
            try:
                await (self._lead() if leads else self._unlabel())
            except Gone as error:
                logger.debug("the watch of labelled pods expired", extra=fields(error=error))
            except (ApiError, Unreachable, KeyError, TypeError) as error:
                self._complain(error, backoff.bound)
            else:
                if not leads:
                    continue
            if boottime() - began_at > RETRY_LIMIT:
                backoff.succeeded()
            await self._pause(backoff.failed(), leads=leads)

    async def _pause(self, delay: float, *, leads: bool) -> None:
        """Ends with the lead too: the label is to follow it at once."""
        until = boottime() + delay
        while (left := until - boottime()) > 0 and self._leads() is leads:
            await self._elector.changed(left)

    async def _unlabel(self) -> None:
        """Takes the label off this pod, which may bear it from an earlier term or process."""
        bearers, _ = await self._bearers()
        if any(pod["metadata"]["name"] == self._pod_name for pod in bearers):
            await self._label(self._pod_name, None)
        self._is_labelled = False

    async def _lead(self) -> None:
        """Keeps the label here, and off the others, until the term or the watch ends."""
        following = asyncio.create_task(self._follow())
        try:
            while self._leads() and not following.done():
                changed = asyncio.create_task(self._elector.changed(MAX_SLEEP))
                await asyncio.wait({following, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            following.cancel()
            await asyncio.wait({following})
        if not following.cancelled():
            following.result()

    async def _follow(self) -> None:
        """One list and one watch of the pods that bear the label."""
        bearers, version = await self._bearers()
        if all(pod["metadata"]["name"] != self._pod_name for pod in bearers):
            await self._label(self._pod_name, self._value)
        self._is_labelled = True
        for pod in bearers:
            await self._clean(pod)
        params = self._selector | {
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        lines = self._server.lines(self._path, params=params, open_timeout=self._timeout)
        async with aclosing(lines):
            async for line in lines:
                event = parse_event(line, decode_object)
                if isinstance(event, Bookmark):
                    continue
                if event.type is EventType.DELETED:
                    await self._restore(event.object)
                else:
                    await self._clean(event.object)

    async def _bearers(self) -> tuple[list[dict[str, Any]], str]:
        """The pods that bear the label, and the version from which to watch them."""
        listed = await self._server.request(
            "GET", self._path, params=self._selector, timeout=self._timeout
        )
        return listed["items"], listed["metadata"]["resourceVersion"]

    async def _clean(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        is_ours = annotations.get(LEASE_ANNOTATION) == self._elector.config.lease
        if metadata["name"] != self._pod_name and is_ours and self._leads():
            await self._label(metadata["name"], None)

    async def _restore(self, pod: dict[str, Any]) -> None:
        """Somebody took the label off our own pod: it still leads."""
        if pod["metadata"]["name"] == self._pod_name and self._leads():
            await self._label(self._pod_name, self._value)

    async def _label(self, name: str, value: str | None) -> None:
        await asyncio.sleep(self._patch_at.get(name, 0.0) - boottime())
        self._patch_at = {it: at for it, at in self._patch_at.items() if at > boottime()}
        self._patch_at[name] = boottime() + RETRY_DELAY
        try:
            await self._server.request(
                "PATCH",
                f"{self._path}/{name}",
                body={"metadata": {"labels": {self._key: value}}},
                content_type=MERGE_PATCH,
                timeout=self._timeout,
            )
        except NotFound:
            if name == self._pod_name:
                raise
            return  # gone, label and all
        logger.info("patched the leader label", extra=fields(pod=name, value=value or "removed"))

    def _complain(self, error: Exception, delay: float) -> None:
        details: dict[str, object] = {"error": str(error), "retry_in": delay}
        if isinstance(error, Forbidden):
            details["missing_rule"] = (
                f"Role in namespace {self._elector.config.pod_namespace}: "
                '{apiGroups: [""], resources: ["pods"], verbs: ["list", "watch", "patch"]}'
            )
        logger.warning("keeping the leader label failed", extra=fields(**details))

    def _leads(self) -> bool:
        return self._elector.status(boottime()).is_leader
