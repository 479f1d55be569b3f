"""NodeReports and the objects that they speak of, as the API has them.

Guarantees: what is written is what was read, unchanged meanwhile; that an object is gone is
believed only where the relay reached the API before and after that answer.
"""

import time
from collections.abc import Callable

from edge_sidecars.kubeapi import ApiClient, NotFound
from edge_sidecars.kubeapi.client import JSON, MERGE_PATCH
from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import NODE_REPORT, kind_named
from edge_sidecars.sedna_api.core.node_report import NodeReport

# Seconds that one request may take, through a slow link.
REQUEST_TIMEOUT = 10.0
# In managedFields, as whose words these are.
FIELD_MANAGER = "sedna-lc"


class NotKnown(Exception):
    """It is not known now."""


class ReportApi:
    """Of one node. What is awaited raises `ApiError`, `Unreachable` and
    `MalformedReport`.

    `is_link_up`: whether what is read now is the API's own word.
    """

    def __init__(self, api: ApiClient, *, node: str, is_link_up: Callable[[], bool]) -> None:
        self._api = api
        self._node = node
        self.is_link_up = is_link_up

    async def read(self, namespace: str, *, store_id: str) -> NodeReport:
        """A new one where there is none: it may be there all the same, and then is not written."""
        path = NODE_REPORT.path(namespace, self._node)
        try:
            return NodeReport.parse(await self._api.request("GET", path, timeout=REQUEST_TIMEOUT))
        except NotFound:
            return NodeReport.new(namespace, self._node, store_id, epoch=int(time.time()))

    async def write(self, report: NodeReport) -> NodeReport:
        """As it is then. Raises `Conflict` where it is not what was read any more."""
        if report.uid:
            method, path = "PATCH", NODE_REPORT.path(report.namespace, self._node)
            body, content_type = report.to_patch(), MERGE_PATCH
        else:
            method, path = "POST", NODE_REPORT.collection(report.namespace)
            body, content_type = report.to_json(), JSON
        answer = await self._api.request(
            method,
            path,
            timeout=REQUEST_TIMEOUT,
            params={"fieldManager": FIELD_MANAGER},
            body=body,
            content_type=content_type,
        )
        return NodeReport.parse(answer)

    async def find(self, uid: str, key: ObjectKey) -> Json | None:
        """The object as it is there; None where it is gone. Raises `NotKnown`."""
        kind = kind_named(key.kind)
        if kind is None or not self.is_link_up():
            raise NotKnown
        path = kind.path(key.namespace, key.name)
        try:
            found: Json | None = await self._api.request("GET", path, timeout=REQUEST_TIMEOUT)
        except NotFound:
            found = None
        if found is not None and found.get("metadata", {}).get("uid") == uid:
            return found
        if not self.is_link_up():
            raise NotKnown
        return None
