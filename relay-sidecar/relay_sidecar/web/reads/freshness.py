"""How new an answer is, and what the relay learns from the answers of upstream.

An answer is never older than what the relay has handed out before (no client goes backwards in
time), unless upstream cannot be asked: then it is what is cached, with its age. A client that
writes through the relay reads its own write, whichever stream answers.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from edge_sidecars.apimachinery.objects import Item, Key, Malformed, read_item, read_page
from edge_sidecars.apimachinery.request.request_info import Form, Representation, RequestInfo
from edge_sidecars.apimachinery.resource_version import response_version
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.attrs import uid
from edge_sidecars.apimachinery.status import Refused, unavailable
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.messages import BufferedResponse
from relay_sidecar.web.reads.selection import key_of
from relay_sidecar.web.reads.whole_answers import WholeAnswers
from relay_sidecar.web.responses import age_headers
from relay_sidecar.web.upstream import Upstream

# Seconds; contract of the floor: how long an answer may wait to be new enough.
FLOOR_WAIT = 1.0
# Seconds; an event is behind the answer to its write by less.
FLOOR_PATIENCE = 0.05
# Objects: names and versions of so many, compressed, are as long as some objects.
CONFIRMED_FOR_ONE: Final = 1000
# Seconds; kube-apiserver: blockTimeout of its cacher (k8s.io/apiserver/pkg/storage/cacher).
VERSION_WAIT = 3.0


class _DeletedMetadata(Struct, rename="camel"):
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int | None = None


class _Deleted(Struct):
    metadata: _DeletedMetadata


class _Details(Struct):
    uid: str = ""


class _Named(Struct):
    name: str = ""


class _Binding(Struct):
    metadata: _Named


class _DeletionStatus(Struct):
    kind: str
    details: _Details | None = None


# The one value of DeleteOptions.dryRun, in JSON as in protobuf (kubectl delete --dry-run=server).
# What has it elsewhere is a deletion that is learned from the stream only.
_DRY_RUN: Final = b"All"
_DELETIONS: Final = ("delete", "deletecollection")
_DELETED: Final = Decoder(_Deleted)
_STATUS: Final = Decoder(_DeletionStatus)
_BINDING: Final = Decoder(_Binding)


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """`reads_cache`: LIST and GET without a version come from live streams too; `is_origin`: there
    is no upstream, so that what is here is never old. Seconds."""

    is_origin: bool
    reads_cache: bool
    read_timeout: float
    request_timeout: float
    max_watchers: int
    watch_buffer: int
    shard_pushdown: bool = False


@dataclass(frozen=True, slots=True)
class Freshness:
    """`now` is monotonic, `wall` unix time, `clock` goes on while the machine sleeps."""

    streams: Streams
    upstream: Upstream
    journal: Journal
    settings: ReadSettings
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    clock: Callable[[], float] = boottime
    # Beside what clients were answered in a form that is not kept.
    whole: WholeAnswers = field(init=False)

    def __post_init__(self) -> None:
        timeout = self.settings.request_timeout
        whole = WholeAnswers(self.upstream, timeout=timeout, wall=self.wall)
        object.__setattr__(self, "whole", whole)

    @property
    def minimum(self) -> MinResourceVersion:
        return self.streams.floor

    def age(self, stream: Stream, *, since: float, stands_in: bool = False) -> dict[str, str]:
        """Headers that tell a client that asked at `since` (by `clock`) how old an answer of this
        stream may be; `stands_in` for one of upstream, which was asked and did not answer: then a
        stream that is live may be so no more.
        """
        if not stands_in and self.streams.is_current(stream, since):
            return {}
        return self.age_since(self.streams.reflectors.confirmed_at(stream))

    def age_since(self, confirmed_at: float) -> dict[str, str]:
        """Headers of an answer that upstream confirmed last at this wall time."""
        if self.settings.is_origin:
            return {}
        return age_headers(confirmed_at, now=self.wall())

    def version(self, stream: Stream, scope: ListScope) -> int:
        """The highest at which upstream is known to have held what the stream holds of the scope:
        a list of a namespace tells it, where the stream is of all."""
        found = stream.version
        if not stream.collection.is_synced:
            return found
        is_of_one = scope.name is not None and scope.namespace
        of_all = ListScope(scope.resource, scope.namespace) if is_of_one else scope
        for each in (scope, of_all) if is_of_one else (scope,):
            if stream.scope.covers(each):
                whole, part = stream.collection.fingerprint, partial(stream.fingerprint_of, each)
                found = self.minimum.states.version(each, found, whole=whole, part=part)
        return found

    async def is_new_enough(
        self, stream: Stream, scope: ListScope, *, is_of_one: bool = False
    ) -> bool:
        """Whether it has come to where the minimum is now; while upstream is offline nothing is
        newer. What is handed out meanwhile happens beside this answer, not before it. One that has
        not, asks upstream for the names of all that it holds: once, for all readers that come.
        `is_of_one`: to ask upstream for the one object takes no longer, so that this reader does
        not wait for that."""
        at = self.minimum.of(scope.resource)

        def is_so() -> bool:
            return (
                self.minimum.is_reached(
                    scope,
                    stream.collection,
                    equal_at=self.version(stream, scope),
                    at=at,
                    asked_at=stream.asked_at,
                )
                or not self.upstream.is_up
                or self.upstream.is_relayed
            )

        if is_so():
            return True
        if stream.is_stuck:
            return False
        patience = 0.0
        if self.minimum.is_awaited(stream.scope, stream.collection):
            patience = FLOOR_PATIENCE
        if await stream.until(is_so, timeout=patience):
            return True
        # Nothing is on its way, it seems: upstream can tell whether anything is missing.
        if not is_of_one or len(stream.collection.objects) <= CONFIRMED_FOR_ONE:
            self.streams.reflectors.confirm(stream)
        return not is_of_one and await stream.until(is_so, timeout=FLOOR_WAIT - patience)

    async def remember(
        self,
        resource: ResourceName,
        item: Item,
        *,
        asked_at: float = -math.inf,
        age: float = 0.0,
        is_of_node: bool = False,
    ) -> None:
        """An object that upstream has answered with, `age` seconds old, before it is handed out;
        `asked_at`: the wall time at which it was asked for the newest there is; `is_of_node`: the
        node itself asked."""
        records = self.streams.seen.remember(
            resource, item, at=self.wall() - age, asked_at=asked_at, is_of_node=is_of_node
        )
        self.handed_out(resource, item.version, item)
        if records:
            await self.journal.commit(*records)

    async def forget(self, resource: ResourceName, key: Key) -> None:
        """Upstream says that it is gone: in each API version."""
        records = self.streams.seen.forget(resource, key)
        if records:
            await self.journal.commit(*records)

    def passed_on(
        self, resource: ResourceName, body: bytes, wanted: Representation, *, is_list: bool
    ) -> int | None:
        """An answer of upstream goes to a client as it is. Returns its version, if it has one."""
        version = response_version(body, wanted.form, is_list=is_list)
        if version:
            self.handed_out(resource, version)
        return version or None

    def handed_out(
        self, resource: ResourceName, version: int, source: Item | ListScope | None = None
    ) -> None:
        self.minimum.raise_to(resource, version, source)

    def changed(self, info: RequestInfo, wanted: Representation, answer: BufferedResponse) -> None:
        """A write was answered with something else than the object, or in a form that is not read
        here: what is known of the object is old until upstream has been asked since."""
        resource, key = written_object(info, answer.asked)
        is_list = info.verb == "deletecollection"
        version = self.passed_on(resource, answer.content, wanted, is_list=is_list)
        is_end = info.verb in _DELETIONS
        self.minimum.changed(resource, key, self.clock(), None if is_end else version)

    async def written(
        self,
        info: RequestInfo,
        wanted: Representation,
        answer: BufferedResponse,
        asked_at: float,
    ) -> None:
        """What upstream answered to a write that it was asked for at this wall time, before that
        is handed out. What a node only writes, such as the states of ever new pods, takes no room
        from what it reads."""
        if is_never_read_again(info.resource):
            self.passed_on(info.resource, answer.content, wanted, is_list=False)
            if info.name:
                await self.forget(info.resource, key_of(info))
            return
        if info.verb in _DELETIONS and _DRY_RUN in answer.asked:
            return
        if wanted.form is Form.WHOLE and await self._is_learned(info, answer, asked_at=asked_at):
            return
        self.changed(info, wanted, answer)
        if info.verb == "delete":
            # It may be there still: then upstream will say so.
            await self.forget(info.resource, key_of(info))

    def not_cached(self, info: RequestInfo) -> Refused:
        """Of what cannot be answered from the cache, while upstream is out of reach."""
        name = f" {info.name}" if info.name else ""
        where = f" of namespace {info.namespace}" if info.namespace else ""
        what = f"{_spelled(info.resource)}{name}{where}"
        cause = self.upstream.cause or "it gave no answer in time"
        why = f"not known here, and upstream is out of reach: {cause}"
        limit = self.streams.evicted_for(info.resource)
        remedy = f"some were evicted for {limit}" if limit else _remedy(info.resource)
        return Refused(unavailable(f"{what}: {why}; {remedy}"))

    def patience(self, *, has_answer: bool) -> float:
        """Seconds for which upstream may think, where the relay could answer as well or cannot.

        A fifth is for making that answer; before the link's first verdict a part has gone already.
        """
        if not has_answer:
            return self.settings.request_timeout
        read_timeout = self.settings.read_timeout
        return read_timeout * (0.8 if self.streams.is_up else 0.5)

    async def _is_learned(
        self, info: RequestInfo, answer: BufferedResponse, *, asked_at: float
    ) -> bool:
        """Whether the answer tells all that the write has changed."""
        body = answer.content
        if info.verb == "deletecollection":
            return await self._are_ends(info, body)
        try:
            item = read_item(body)
        except Malformed:
            dead = _dead(body) if info.verb == "delete" else ""
            if dead:
                await self._learn_end(info, dead)
            return bool(dead)
        if info.verb == "delete" and not _is_left(body):
            self.handed_out(info.resource, item.version, item)
            await self._learn_end(info, uid(body))
        else:
            await self.remember(info.resource, item, asked_at=asked_at)
        return True

    async def _are_ends(self, info: RequestInfo, body: bytes) -> bool:
        """Upstream answers with the objects as they were before; of those that stay for a while
        it does not tell how they are now."""
        try:
            page = read_page(body)
        except Malformed:
            return False
        for item in page.items:
            if _is_left(item.raw):
                self.minimum.changed(info.resource, item.key, self.clock(), None)
            else:
                await self._learn_end(info, uid(item.raw), item.key)
        return True

    async def _learn_end(self, info: RequestInfo, dead: str, key: Key | None = None) -> None:
        key = key or key_of(info)
        await self.forget(info.resource, key)
        if dead:
            self.minimum.deleted(info.resource, key, dead)


def written_object(info: RequestInfo, asked: bytes) -> tuple[ResourceName, Key]:
    """What a write is about; a name "" where that is one of a namespace, or all of it."""
    resource = info.resource
    if (resource.group, resource.plural) == ("", "bindings"):
        # pkg/registry/core/pod/storage: LegacyBindingREST binds the pod of the same name.
        try:
            name = _BINDING.decode(asked).metadata.name
        except (ValueError, RecursionError):
            name = ""
        return ResourceName("", resource.version, "pods"), (info.namespace, name)
    return resource, key_of(info)


def is_never_read_again(resource: ResourceName) -> bool:
    """By who writes it: a node writes thousands of Events a day, which would push out all else."""
    return resource.plural == "events" and resource.group in ("", "events.k8s.io")


def unreachable() -> Refused:
    """Of what is not in the endpoint view."""
    return Refused(unavailable("upstream is out of reach and this is not known here"))


def _remedy(resource: ResourceName) -> str:
    """What would have kept it."""
    if resource.plural == "secrets" and not resource.group:
        return "--keep-secrets keeps Secrets that are watched by name over a restart"
    return f"--preload={_spelled(resource)} keeps it from the start"


def _spelled(resource: ResourceName) -> str:
    """As kubectl and --preload take it."""
    if not resource.group:
        return resource.plural
    return f"{resource.plural}.{resource.version}.{resource.group}"


def _dead(body: bytes) -> str:
    """The uid in the Status of a deletion."""
    try:
        status = _STATUS.decode(body)
    except (ValueError, RecursionError):
        return ""
    return status.details.uid if status.kind == "Status" and status.details else ""


def _is_left(body: bytes) -> bool:
    """Whether a deleted object stays until its finalizers or grace period end."""
    try:
        meta = _DELETED.decode(body).metadata
    except (ValueError, RecursionError):
        return True
    return bool(meta.finalizers) or bool(meta.deletion_grace_period_seconds)
