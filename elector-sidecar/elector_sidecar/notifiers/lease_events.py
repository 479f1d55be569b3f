"""Events on the Lease: who became leader, who stopped, with client-go's reason and texts.

Best effort and off the renewal path: one attempt each, and none any more where RBAC forbids it.
Source: client-go leaderelection/resourcelock/leaselock.go, RecordEvent.
"""

import time
import uuid
from typing import Any

from edge_sidecars.kubeapi import ApiClient, ApiError, Forbidden, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from elector_sidecar.core.lease import micro_time
from elector_sidecar.elector import Elector

MAX_SLEEP = 60.0


class LeaseEvents:
    def __init__(self, elector: Elector, server: ApiClient) -> None:
        self._elector = elector
        self._server = server
        self._told = False
        self._is_forbidden = False

    @property
    def is_flushed(self) -> bool:
        return self._is_forbidden or self._told == self._elector.status(boottime()).is_leader

    async def close(self) -> None:
        """Nothing is on its way once it is settled."""

    async def run(self) -> None:
        while True:
            if self.is_flushed:
                await self._elector.changed(MAX_SLEEP)
                continue
            leads = not self._told
            self._told = leads
            try:
                await self._record("became leader" if leads else "stopped leading")
            except Forbidden as error:
                self._is_forbidden = True
                logger.info(
                    "events are forbidden, none will be recorded", extra=fields(error=error)
                )
                return
            except (ApiError, Unreachable) as error:
                logger.debug("recording an event failed", extra=fields(error=error))

    async def _record(self, what: str) -> None:
        config = self._elector.config
        stamp = micro_time(time.time())
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{config.lease}.{uuid.uuid4().hex[:16]}",
                "namespace": config.namespace,
            },
            "involvedObject": {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "namespace": config.namespace,
                "name": config.lease,
                "uid": self._elector.status(boottime()).view.uid,
            },
            "type": "Normal",
            "reason": "LeaderElection",
            "message": f"{self._elector.identity} {what}",
            "source": {"component": "elector-sidecar"},
            "firstTimestamp": stamp[:19] + "Z",
            "lastTimestamp": stamp[:19] + "Z",
            "count": 1,
        }
        path = f"/api/v1/namespaces/{config.namespace}/events"
        await self._server.request("POST", path, body=body, timeout=config.timing.request_timeout)
