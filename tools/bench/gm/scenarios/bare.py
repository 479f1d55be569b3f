"""The writes that GM made, once more, by a loop that does nothing else.

What it writes is what GM wrote as the API has it now, in a namespace of which no GM knows; defaults
that the API server filled in are sent as well. Guarantees: which writes these are, how many, and in
which order for each job, is read from the audit log; as many jobs are worked on at a time as by GM.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.kubeapi.client import JSON, MERGE_PATCH
from tools.bench.gm.world import REQUEST_TIMEOUT, World, spread_over
from tools.harness.controlplane.audit import AuditEvent
from tools.harness.controlplane.cluster import ControlPlane

Json = dict[str, Any]

USER_AGENT = "bare-loop"
# GM's default of --concurrency.
AT_A_TIME = 32
GM_AGENT = "gm/"
WRITES = ("create", "update", "patch", "delete")
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH"}
# What the API server adds, and takes from nobody.
_ADDED = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


class NotRepeatable(Exception):
    """GM wrote what this loop cannot."""


def written(plane: ControlPlane, namespace: str, agent: str) -> list[AuditEvent]:
    """Writes that succeeded, in their order."""
    found = plane.audit(namespace=namespace, user_agent=agent)
    return sorted(
        (it for it in found if it.verb in WRITES and it.status is not None and it.status < 300),
        key=lambda it: it.received_at,
    )


def seconds_of(writes: Sequence[AuditEvent]) -> float:
    """From the first one's arrival to the last one's answer."""
    return max(it.stage_at for it in writes) - min(it.received_at for it in writes)


def kinds_of(writes: Sequence[AuditEvent]) -> Counter[str]:
    return Counter(f"{it.verb} {it.resource}/{it.subresource}" for it in writes)


@dataclass(frozen=True)
class Twin:
    """A job that GM made, and one of its name in the other namespace."""

    name: str
    model: Json
    uid: str
    resource_version: str


async def read_all(
    api: ApiClient, namespace: str, collections: Mapping[str, str]
) -> Mapping[tuple[str, str], Json]:
    """What stands in the namespace, by resource and name; `collections`: paths by resource."""
    found = {}
    for resource, path in collections.items():
        answer = await api.request("GET", path.format(namespace), timeout=REQUEST_TIMEOUT)
        for it in answer["items"]:
            found[resource, it["metadata"]["name"]] = it
    return found


async def repeat(
    world: World,
    writes: Sequence[AuditEvent],
    made: Mapping[tuple[str, str], Json],
    twins: Mapping[str, Twin],
    namespaces: tuple[str, str],
) -> None:
    """`made`: what stands where GM wrote, the first of the namespaces. A child, or an Event, bears
    its job's name in front."""
    by_job: dict[str, list[AuditEvent]] = {name: [] for name in twins}
    for write in writes:
        [name] = [it for it in twins if _belongs(write.name, it)] or [""]
        if name:
            by_job[name].append(write)

    async with world.client(user_agent=USER_AGENT) as api:

        async def work(name: str) -> None:
            loop = _Loop(api, twins[name], namespaces)
            for write in by_job[name]:
                await loop.repeat(write, made)

        await spread_over(AT_A_TIME, by_job, work)


def _belongs(name: str, job: str) -> bool:
    return name == job or name.startswith((f"{job}-", f"{job}."))


class _Loop:
    """The writes of one job."""

    def __init__(self, api: ApiClient, twin: Twin, namespaces: tuple[str, str]) -> None:
        self._api = api
        self._twin = twin
        self._namespaces = namespaces
        self._version = twin.resource_version
        self._number = 0

    async def repeat(self, write: AuditEvent, made: Mapping[tuple[str, str], Json]) -> None:
        was, becomes = self._namespaces
        model = made.get((write.resource, write.name))
        if model is None or write.verb not in METHODS:
            raise NotRepeatable(f"{write.verb} {write.resource} {write.name}")
        text = json.dumps(model).replace(was, becomes)
        copy = json.loads(text.replace(self._twin.model["metadata"]["uid"], self._twin.uid))
        path = write.request_uri.partition("?")[0].replace(was, becomes)
        is_patch = write.verb == "patch"
        body = _new(copy) if write.verb == "create" else self._changed(copy, is_patch=is_patch)
        answer = await self._api.request(
            METHODS[write.verb],
            path,
            body=body,
            timeout=REQUEST_TIMEOUT,
            content_type=MERGE_PATCH if is_patch else JSON,
            pooled=True,
        )
        if write.verb != "create":
            self._version = answer["metadata"]["resourceVersion"]

    def _changed(self, copy: Json, *, is_patch: bool) -> Json:
        """Each one differs from the last, else the API server would write nothing."""
        self._number += 1
        metadata = {"uid": self._twin.uid, "resourceVersion": self._version}
        if is_patch:
            kept = {key: copy["metadata"].get(key, {}) for key in ("labels", "annotations")}
            return {"metadata": {**metadata, **kept}}
        named = {key: copy["metadata"][key] for key in ("name", "namespace")}
        status = copy["status"]
        if status.get("conditions"):
            status["conditions"][-1]["message"] = f"write {self._number}"
        kind = {key: copy[key] for key in ("apiVersion", "kind")}
        return {**kind, "metadata": {**metadata, **named}, "status": status}


def _new(copy: Json) -> Json:
    """As it was asked for."""
    for key in _ADDED:
        copy["metadata"].pop(key, None)
    copy.pop("status", None)
    for key in ("clusterIP", "clusterIPs"):
        copy.get("spec", {}).pop(key, None)
    return copy
