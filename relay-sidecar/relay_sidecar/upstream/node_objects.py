"""What the node's components need, asked of upstream by the relay itself.

Kubelet asks once for most of what a pod needs, and for an immutable Secret or ConfigMap never again
(it ends the watch); kube-proxy, CoreDNS and flanneld ask when they start. A journal that began anew
after that (deleted, set aside, a new disk) would lack it at the next reboot. So the relay looks at
the pods of its node and fetches, with the node's identity, what it lacks: as soon as there is a
link, without waiting for a request.

    what kubelet and the components of the node follow    streams that stay open
    Secrets and ConfigMaps of the pods                    streams by name, listed once; what no pod
                                                          watches is closed as any idle stream, and
                                                          kept as long as a pod names it
    claims, volumes, attachments, the CSINode             objects
    tokens of the pods (with --keep-secrets)              kept answers to TokenRequest

Guarantees: what kubelet asks for itself is not asked for twice, where it does so within `GRACE` of
the pod's coming; what upstream refuses is not asked for again for `REFUSED_FOR`; few requests at a
time. The node's identity bounds what can be had: Node authorizer, NodeRestriction.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

from msgspec import Struct

from edge_sidecars.apimachinery.objects import Item, Malformed, read_item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import NAME, FieldRequirement, FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.kubeapi import ApiError, Unreachable
from relay_sidecar.core.access.node_identity import resources_read_by
from relay_sidecar.core.node_needs import (
    CLAIMS,
    CONFIG_MAPS,
    CSI_DRIVERS,
    CSI_NODES,
    SECRETS,
    DriverFacts,
    ObjectName,
    PodNeeds,
    TokenWish,
    VolumeNeeds,
    attachment_of,
    driver_facts,
    pod_needs,
    volume_needs,
    volume_of,
)
from relay_sidecar.core.token_request import JSON, PROTOBUF, TokenRequestKey
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import NoRoom, Streams

# Seconds between two looks at what is lacking: a few ms for a node that is full of pods.
ROUND: Final = 2.0
# Seconds that kubelet has to ask by itself for what a pod needs.
GRACE: Final = 8.0
# Seconds until upstream is asked again for what it refused, or what there was no room for.
REFUSED_FOR: Final = 300.0
# Requests at a time: those of clients go first.
MAX_REQUESTS: Final = 4
# As a preloaded stream is asked for again: seconds, and a part of the time that it stays open.
KEEP_OPEN: Final = 60.0
# Of `--retain`: how long something may be unused before it counts as used by its pod.
TOUCHED_AFTER: Final = 0.25
_SERVICES = ResourceName("", "v1", "services")
_NODES = ResourceName("", "v1", "nodes")
_RUNTIME_CLASSES = ResourceName("node.k8s.io", "v1", "runtimeclasses")


class NodeUpstream(Protocol):
    """Upstream, asked as the node. Both raise `ApiError` and `Unreachable`."""

    async def get(self, path: str) -> bytes: ...

    async def token(self, key: TokenRequestKey) -> tuple[int, str, bytes]:
        """The answer to a TokenRequest: status, Content-Type, body."""
        ...


class NodeTokens(Protocol):
    """Kept answers to TokenRequest."""

    def __iter__(self) -> Iterator[TokenRequestKey]: ...

    async def obtained(
        self, key: TokenRequestKey, *, status: int, content_type: str, body: bytes
    ) -> None: ...


Remember = Callable[[ResourceName, Item, float], Awaitable[None]]


class _PodEntry(Struct):
    item: Item
    needs: PodNeeds | None
    since: float


class NodeObjects:
    """`pods`: the scope of the node's pods; `remember` is given each object that upstream answered,
    and the wall time at which it was asked; `tokens`: None without --keep-secrets."""

    def __init__(
        self,
        node: str,
        pods: ListScope,
        streams: Streams,
        upstream: NodeUpstream,
        remember: Remember,
        tokens: NodeTokens | None,
    ) -> None:
        self._node = node
        self._pods_scope = pods
        self._streams = streams
        self._upstream = upstream
        self._remember = remember
        self._tokens = tokens
        self._entries: dict[tuple[str, str], _PodEntry] = {}
        # The state of the stream of pods that was looked at last.
        self._seen: tuple[Stream, int, int] | None = None
        # Answers to TokenRequest that kubelet has not asked for.
        self._obtained: set[TokenRequestKey] = set()
        # When (monotonic) each is asked for next.
        self._due: dict[object, float] = {}
        # What was read off objects, as long as they are the same.
        self._volumes: dict[ObjectName, tuple[Item, VolumeNeeds]] = {}
        self._drivers: dict[str, tuple[Item, DriverFacts]] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            now = time.monotonic()
            self._look_at_pods(now)
            self._keep_used(now)
            if self._streams.is_up:
                self._keep_open(now)
                await self._fetch_lacking(now)
            await asyncio.sleep(ROUND)

    # ── what is followed ──

    def _keep_open(self, now: float) -> None:
        interval = min(KEEP_OPEN, max(self._streams.limits.idle_timeout / 4, 0.1))
        for scope in self._followed():
            if self._due.get(scope, now) <= now:
                refusal = self._streams.refusal(scope, now=now)
                if refusal is None:
                    self._open(scope, now)
                self._due[scope] = now + (interval if refusal is None else REFUSED_FOR)

    def _followed(self) -> Iterable[ListScope]:
        """By kubelet, and by those components of which there are pods on the node."""
        node = FieldSelector.of((FieldRequirement(NAME, True, self._node),))
        found = [self._pods_scope, ListScope(_NODES, fields=node)]
        wide = [_SERVICES, CSI_DRIVERS, _RUNTIME_CLASSES]
        for pod in self._needs():
            wide += resources_read_by(pod.namespace, pod.account)
        return [*found, *map(ListScope, dict.fromkeys(wide))]

    def _open(self, scope: ListScope, now: float) -> bool:
        self._streams.of_node.add(scope)
        try:
            self._streams.open(scope, now=now)
        except NoRoom:
            return False
        return True

    # ── what is lacking ──

    def _needs(self, *, since: float = float("inf")) -> list[PodNeeds]:
        """Of the pods that were there at `since` (monotonic)."""
        entries = self._entries.values()
        return [it.needs for it in entries if it.needs is not None and it.since <= since]

    def _look_at_pods(self, now: float) -> bool:
        """Whether the node's pods are known."""
        stream = next(iter(self._streams.covering(self._pods_scope)), None)
        if stream is None:
            return False
        seen = stream, stream.version, stream.turns
        if seen == self._seen:
            return True
        self._seen = seen
        found: dict[tuple[str, str], _PodEntry] = {}
        for item in stream.collection.objects.values():
            known = self._entries.get(item.key)
            if known is not None and known.item is item:
                found[item.key] = known
            elif self._pods_scope.matches(item):
                since = now if known is None else known.since
                found[item.key] = _PodEntry(item, pod_needs(item.raw), since)
        self._entries = found
        return True

    async def _fetch_lacking(self, now: float) -> None:
        if not self._look_at_pods(now):
            return
        places = asyncio.Semaphore(MAX_REQUESTS)

        async def one(due: object, ask: Callable[[], Awaitable[None]]) -> None:
            async with places:
                if self._streams.is_up:
                    await self._ask(due, ask)

        lacking = [(due, ask) for due, ask in self._lacking(now) if self._due.get(due, now) <= now]
        await asyncio.gather(*(one(due, ask) for due, ask in lacking))
        self._due = {due: at for due, at in self._due.items() if at > now}

    async def _ask(self, due: object, ask: Callable[[], Awaitable[None]]) -> None:
        try:
            await ask()
        except Unreachable:
            return
        except (ApiError, Malformed):
            self._due[due] = time.monotonic() + REFUSED_FOR

    def _lacking(self, now: float) -> Iterator[tuple[object, Callable[[], Awaitable[None]]]]:
        """What is to be asked for, and how."""
        needs = self._needs(since=now - GRACE)
        objects = {each for pod in needs for each in pod.objects}
        volumes = list(self._volumes_of(needs))
        objects |= {secret for volume in volumes for secret in volume.secrets}
        objects |= {
            attachment_of(volume, self._node)
            for volume in volumes
            if volume.driver and self._driver(volume.driver).attaches
        }
        objects |= {volume for claim in objects if (volume := self._bound(claim)) is not None}
        objects.add(ObjectName(CSI_NODES, ("", self._node)))
        for named in objects:
            if named.resource in (SECRETS, CONFIG_MAPS):
                if not self._is_listed(named) and self._is_wanted(named):
                    yield named, partial(self._list_once, named)
            elif self._streams.newest(named.resource, named.key) is None:
                yield named, partial(self._get, named)
        for pod, wish in self._lacking_tokens(needs):
            yield pod.token_key(wish, ""), partial(self._obtain, pod, wish)

    def _is_wanted(self, named: ObjectName) -> bool:
        """Without a key no Secret outlasts the process, and kubelet has it in memory itself."""
        return named.resource != SECRETS or self._tokens is not None

    def _is_listed(self, named: ObjectName) -> bool:
        scope = _by_name(named)
        stream = self._streams.exactly(scope)
        if stream is not None and (stream.collection.is_synced or stream.runs):
            return True
        return any(it.runs for it in self._streams.covering(scope))

    async def _list_once(self, named: ObjectName) -> None:
        now = time.monotonic()
        if not self._open(_by_name(named), now):
            self._due[named] = now + REFUSED_FOR

    async def _get(self, named: ObjectName) -> None:
        asked_at = time.time()
        body = await self._upstream.get(_path(named))
        await self._remember(named.resource, read_item(body), asked_at)

    async def _obtain(self, pod: PodNeeds, wish: TokenWish) -> None:
        """In both forms: which of them kubelet asks for, nothing here tells yet. Its usual one is
        the last, and so the newest."""
        for form in (JSON, PROTOBUF):
            key = pod.token_key(wish, form)
            status, content_type, body = await self._upstream.token(key)
            if self._tokens is not None:
                await self._tokens.obtained(
                    key, status=status, content_type=content_type, body=body
                )
            if status != HTTPStatus.CREATED:
                self._due[pod.token_key(wish, "")] = time.monotonic() + REFUSED_FOR
                return
            self._obtained.add(key)

    def _lacking_tokens(self, needs: Iterable[PodNeeds]) -> Iterator[tuple[PodNeeds, TokenWish]]:
        """Of which kubelet has not asked for one itself."""
        if self._tokens is None:
            return
        kept = set(self._tokens)
        self._obtained &= kept
        for pod in needs:
            wishes = set(pod.tokens)
            for driver in self._drivers_of(pod):
                wishes |= self._driver(driver).tokens
            for wish in wishes:
                usual, other = (pod.token_key(wish, form) for form in (PROTOBUF, JSON))
                if usual not in kept and (other not in kept or other in self._obtained):
                    yield pod, wish

    # ── from one object to the next ──

    def _bound(self, claim: ObjectName) -> ObjectName | None:
        if claim.resource != CLAIMS:
            return None
        known = self._streams.newest(CLAIMS, claim.key)
        return None if known is None else volume_of(known[0].raw)

    def _volumes_of(self, pods: Iterable[PodNeeds]) -> Iterator[VolumeNeeds]:
        for pod in pods:
            for claim in pod.objects:
                volume = self._bound(claim)
                known = None if volume is None else self._streams.newest(*volume)
                if volume is not None and known is not None:
                    cached = self._volumes.get(volume)
                    if cached is None or cached[0] is not known[0]:
                        cached = self._volumes[volume] = known[0], volume_needs(known[0].raw)
                    yield cached[1]

    def _drivers_of(self, pod: PodNeeds) -> set[str]:
        return {*pod.drivers} | {it.driver for it in self._volumes_of([pod]) if it.driver}

    def _driver(self, name: str) -> DriverFacts:
        known = self._streams.newest(CSI_DRIVERS, ("", name))
        if known is None:
            return DriverFacts()
        cached = self._drivers.get(name)
        if cached is None or cached[0] is not known[0]:
            cached = self._drivers[name] = known[0], driver_facts(known[0].raw)
        return cached[1]

    # ── what a pod names is not forgotten ──

    def _keep_used(self, now: float) -> None:
        """A Secret or ConfigMap without a watch: it is used as long as a pod names it."""
        unused_since = now - TOUCHED_AFTER * self._streams.limits.retain
        for named in {each for pod in self._needs() for each in pod.objects}:
            if named.resource not in (SECRETS, CONFIG_MAPS):
                continue
            stream = self._streams.exactly(_by_name(named))
            if stream is not None and stream.used_at < unused_since:
                stream.used_at = now
                self._streams.of_node.add(stream.scope)


def _by_name(named: ObjectName) -> ListScope:
    """As kubelet lists and watches one object."""
    namespace, name = named.key
    fields = FieldSelector.of((FieldRequirement(NAME, True, name),))
    return ListScope(named.resource, namespace, LabelSelector(), fields)


def _path(named: ObjectName) -> str:
    namespace, name = named.key
    return f"{ListScope(named.resource, namespace).path}/{name}"
