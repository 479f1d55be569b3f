"""The door of the optional rooms: what one gets of the base, and what it may add to it.

    wiring: FEATURES ──► Feature.open(parts) ──► the room's open_room(parts) ──► Hooks

Guarantee: the base knows no room: it asks `Features`, which asks those that registered a hook.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiTransport
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.metrics import Metric
from edge_sidecars.runtime.tasks import Spawn
from edge_sidecars.runtime.web.connections import Handler
from relay_sidecar.access.admission import OpenedAccess
from relay_sidecar.config.config import Config
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.core.verdicts import VerdictSource
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.documents.documents import DocumentCache
from relay_sidecar.upstream.documents.schemas import Schemas
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.proxy import Proxy
from relay_sidecar.upstream.reflector.source import CloudFeed, Feed, UpstreamSource
from relay_sidecar.web.api import Answer, Api
from relay_sidecar.web.reads.freshness import ReadSettings

if TYPE_CHECKING:
    from relay_sidecar.upstream.node_objects import NodeTokens

# A part of the /status document, by its keys.
Rows = Mapping[str, Any]
Run = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class RoomListener:
    """`connections` 0: as many as the relay's API has, whose certificate it shows, too."""

    address: Address
    handle: Handler
    connections: int = 0


@dataclass(frozen=True)
class Way:
    """To upstream: `via` a neighbour, "" for none; `is_own_up`: it is reached without one."""

    via: str
    is_own_up: bool


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What a room adds; each is None or empty where it adds nothing.

    `answer` takes a request before the base does, or returns None. `feed`: from where a stream
    comes, None: from upstream. `proxy`: through which upstream is reached, None: as the credentials
    say. `is_shared`: neighbours have one stream of the scope for all. `link`: called with each
    verdict on the link. `size` in bytes, within the memory budget. `status`, `restart`, `metrics`:
    what is shown. `run` is started once the listeners are open.
    """

    answer: Answer | None = None
    proxy: Callable[[], HttpProxy | None] | None = None
    feed: Callable[[Stream, CloudFeed], Feed | None] | None = None
    is_shared: Callable[[ListScope], bool] | None = None
    way: Callable[[], Way] | None = None
    verdicts: VerdictSource | None = None
    tokens: "NodeTokens | None" = None
    link: Callable[[bool], None] | None = None
    size: Callable[[], int] | None = None
    status: Callable[[], Rows] | None = None
    restart: Callable[[], Rows] | None = None
    metrics: Callable[[], Sequence[Metric]] | None = None
    listeners: Sequence[RoomListener] = ()
    run: Sequence[Run] = ()


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Of the base, for rooms. `connect` makes another transport, which asks no room for a proxy,
    and `own_link` the state of its link; `sealer` None: nothing is sealed; `settings`: of reads;
    `features`: what the rooms that were opened before have registered."""

    config: Config
    journal: Journal
    saved: Saved
    stack: AsyncExitStack
    spawn: Spawn
    transport: ApiTransport
    connect: Callable[[], ApiTransport]
    own_link: Callable[[], UpstreamLink]
    probe: LinkProbe
    source: UpstreamSource
    access: OpenedAccess
    sealer: Sealer | None
    streams: Streams
    documents: DocumentCache
    schemas: Schemas
    proxy: Proxy
    api: Api
    settings: ReadSettings
    features: "Features"


@dataclass(frozen=True)
class Feature:
    """A room of the relay: the package or module `door`, which is imported only where the flags ask
    for it, since each costs some 300 KiB; its `open_room(parts)` returns its hooks. Without it,
    `status` and `restart` are its rows."""

    door: str
    is_wanted: Callable[[Config], bool]
    status: Rows = field(default_factory=dict)
    restart: Rows = field(default_factory=dict)

    async def open(self, parts: Parts) -> Hooks:
        if not self.is_wanted(parts.config):
            return Hooks(status=lambda: self.status, restart=lambda: self.restart)
        open_room: Callable[[Parts], Awaitable[Hooks]] = import_module(self.door).open_room
        return await open_room(parts)


class Features:
    """The rooms that are open. Before `open` it is as if there were none."""

    def __init__(self) -> None:
        self._hooks: list[Hooks] = []
        # Of all rooms: asked before the base answers.
        self.answers: list[Answer] = []

    async def open(self, features: Sequence[Feature], parts: Parts) -> None:
        for feature in features:
            hooks = await feature.open(parts)
            self._hooks.append(hooks)
            if hooks.answer is not None:
                self.answers.append(hooks.answer)

    def proxy(self) -> HttpProxy | None:
        found = (it.proxy() for it in self._hooks if it.proxy is not None)
        return next((it for it in found if it is not None), None)

    def feed(self, stream: Stream, cloud: CloudFeed) -> Feed:
        found = (it.feed(stream, cloud) for it in self._hooks if it.feed is not None)
        return next((it for it in found if it is not None), cloud)

    def is_shared(self, scope: ListScope) -> bool:
        return any(it.is_shared(scope) for it in self._hooks if it.is_shared is not None)

    def way(self) -> Way | None:
        return next((it.way() for it in self._hooks if it.way is not None), None)

    @property
    def verdicts(self) -> VerdictSource | None:
        return next((it.verdicts for it in self._hooks if it.verdicts is not None), None)

    @property
    def tokens(self) -> "NodeTokens | None":
        return next((it.tokens for it in self._hooks if it.tokens is not None), None)

    def link(self, is_up: bool) -> None:
        """The link went or came back."""
        for it in self._hooks:
            if it.link is not None:
                it.link(is_up)

    def size(self) -> int:
        return sum(it.size() for it in self._hooks if it.size is not None)

    def status(self) -> Rows:
        return {k: v for it in self._hooks if it.status is not None for k, v in it.status().items()}

    def restart(self) -> Rows:
        """What a restart would find, beside streams."""
        found = [it.restart() for it in self._hooks if it.restart is not None]
        return {k: v for rows in found for k, v in rows.items()}

    def metrics(self) -> list[Metric]:
        return [metric for it in self._hooks if it.metrics is not None for metric in it.metrics()]

    @property
    def listeners(self) -> list[RoomListener]:
        return [listener for it in self._hooks for listener in it.listeners]

    @property
    def run(self) -> list[Run]:
        return [run for it in self._hooks for run in it.run]
