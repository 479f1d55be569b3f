"""A collection of the API as client-go's Reflector gives it: all objects, then each change.

Owns the list and watch, and when to try again; keeps no object, and knows of objects only what
`decode` makes of them. Guarantees: A sink gets whole lists only, everything in the API's order,
nothing twice unless with a new list. After a failure the reflector goes on from the version that it
has come to, and lists anew only where the server has forgotten that version. Sinks are called
between two awaits: what a sink does is done when the next line is read. Lists come by WatchList
(KEP-3157), which the relay has, and kube-apiserver since 1.32; where its feature gate is off (by
default in 1.33), in pages.

The relay reflects by its own core (`relay_sidecar/core/stream/reflection.py`), because it reads a
slow link to a server that may lack WatchList. It pages lists, closes a silent watch, waits for the
link, and proves by a list that a watch has caught up before it answers for upstream. This reflector
reads a relay on localhost, which has done all that. Both share how an event is framed
(`apimachinery/watch_events.py`) and delays (`runtime/backoff.py`). They do not share which statuses
make a version useless: only a list with a resourceVersion, as here, is refused with 504.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, Never, Protocol, TypeVar

from edge_sidecars.apimachinery.watch_events import Bookmark, EventType
from edge_sidecars.kubeapi.client import JSON, ApiClient, parse_event
from edge_sidecars.kubeapi.errors import ApiError, NotFound, Unreachable
from edge_sidecars.runtime.backoff import LONGEST, Backoff
from edge_sidecars.runtime.log import fields

logger = logging.getLogger(__name__)

# What a watch of nodes or secrets needs of them.
METADATA_ONLY: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
# Seconds that a watch lasts, at random between these, so that not all end at one moment. As in
# client-go (tools/cache/reflector.go: minWatchTimeout).
WATCH_SECONDS: Final = (300, 600)
# Seconds beyond that after which a server is believed to be frozen.
WATCH_GRACE: Final = 30.0
# A stream that ends sooner was of no use, whatever it brought: not to be opened again at once.
SHORT_WATCH: Final = 1.0
# The statuses that refuse a version which is forgotten, or of another history: 400 and 504 are for
# versions that are no such, or in the future (k8s.io/apiserver, ResourceVersionTooLarge).
FORGOTTEN: Final = (400, 410, 504)
# How a server without WatchList refuses it (k8s.io/apimachinery, ValidateListOptions).
NO_WATCH_LIST: Final = 422
# Objects; as in client-go (tools/pager).
PAGE: Final = 500
# No object has a name with an underscore (RFC 1123 subdomain).
NOBODY: Final = "metadata.name=_"


class Versioned(Protocol):
    """One object, as `decode` makes it."""

    @property
    def key(self) -> Hashable: ...
    @property
    def resource_version(self) -> int: ...


T = TypeVar("T", bound=Versioned)
T_contra = TypeVar("T_contra", bound=Versioned, contravariant=True)


class Sink(Protocol[T_contra]):
    """Where a collection goes. Must not block."""

    def replaced(self, documents: Sequence[T_contra], version: int) -> None:
        """The whole collection at a version: what is not among them is gone."""

    def changed(self, document: T_contra) -> None:
        """Added or modified."""

    def deleted(self, document: T_contra) -> None:
        """Gone, or no more selected: its last state, at the version at which it left."""

    def at(self, version: int) -> None:
        """Every change up to this version has been delivered."""


async def reflect(
    api: ApiClient,
    path: str,
    *,
    decode: Callable[[bytes], T],
    sink: Sink[T],
    params: Mapping[str, str] | None = None,
    accept: str = JSON,
    open_timeout: float = 10.0,
    longest_delay: float = LONGEST,
    is_optional: bool = False,
    gather: float = 0.0,
) -> Never:
    """Until it is cancelled. `decode` raises ValueError for what is no object; `params`: selectors.

    `open_timeout` seconds may pass until an answer begins, `longest_delay` between two attempts.
    `is_optional`: a server that does not know the kind (404) has no objects of it, until it does.
    `gather`: changes that follow others within so many seconds are read together, so late by that
    at most: to wake the process for a change costs more than the change. Lists never wait.
    """
    stream = _ListWatch(api, path, decode, sink, dict(params or {}), accept, open_timeout, gather)
    backoff = Backoff(longest=longest_delay)
    told = ""
    while True:
        try:
            await stream.once()
        except (ApiError, Unreachable) as error:
            if stream.was_useful:
                backoff.succeeded()
                told = ""
            is_forgotten = stream.forgets(error)
            if is_optional and isinstance(error, NotFound):
                sink.replaced((), 0)
            delay = max(backoff.failed(random.random()), _wish(error, longest_delay))
            # Once for a cause: while it lasts the first line says all.
            level = logging.DEBUG if told == str(error) else logging.WARNING
            told = str(error)
            detail = fields(path=path, why=told, again_in=delay)
            logger.log(
                logging.INFO if is_forgotten else level, "collection interrupted", extra=detail
            )
            await asyncio.sleep(delay)
        else:
            backoff.succeeded()
            told = ""


def _wish(error: ApiError | Unreachable, longest: float) -> float:
    """How long the server asked to be left alone, in seconds."""
    asked = error.retry_after if isinstance(error, ApiError) else None
    return min(asked or 0.0, longest)


@dataclass(eq=False)
class _ListWatch(Generic[T]):
    """One collection: `once` is one stream."""

    api: ApiClient
    path: str
    decode: Callable[[bytes], T]
    sink: Sink[T]
    selectors: dict[str, str]
    accept: str
    open_timeout: float
    gather: float = 0.0
    was_useful: bool = False
    # The version to list from, "0" being whatever the relay has, and the one to watch from.
    _floor: str = "0"
    _version: int | None = None
    # Of the list that is coming in.
    _listed: dict[Hashable, T] | None = None
    # The server refused WatchList.
    _is_paged: bool = False
    # The server may be another one now, or have another history.
    _is_doubtful: bool = False

    def forgets(self, error: ApiError | Unreachable) -> bool:
        """Whether to list anew: not older than what was sent, or whatever is newest where that is
        refused, since the history that it was of is not the server's."""
        if not isinstance(error, ApiError):
            self._is_doubtful = True
            return False
        if error.status == NO_WATCH_LIST and self._version is None and not self._is_paged:
            self._is_paged = True
            return True
        if error.status not in FORGOTTEN:
            return False
        if self._version is not None:
            self._floor, self._version = str(self._version), None
        elif self._floor in ("", "0"):
            return False
        else:
            self._floor = ""
        return True

    async def once(self) -> None:
        """Returns when the server ended the stream in order, and it was of some use."""
        self.was_useful = False
        if self._is_doubtful and self._version is not None:
            await self._verify(self._version)
        self._is_doubtful = False
        loop = asyncio.get_running_loop()
        useful_at = loop.time() + SHORT_WATCH
        if self._version is None and self._is_paged:
            await self._list_in_pages()
        seconds = random.randint(*WATCH_SECONDS)
        lines = self.api.lines(
            self.path,
            open_timeout=self.open_timeout,
            params=self._params(seconds),
            accept=self.accept,
            pause=self._pause,
        )
        try:
            async with asyncio.timeout(seconds + WATCH_GRACE), aclosing(lines):
                async for line in lines:
                    self._take(line)
        except TimeoutError as error:
            raise Unreachable(f"{self.path}: the watch did not end in time") from error
        finally:
            self.was_useful = loop.time() >= useful_at
        if not self.was_useful:
            raise Unreachable(f"{self.path}: the watch ended as soon as it had begun")

    def _pause(self) -> float:
        """Until the next of moments that all collections of a process share: it wakes once for what
        all of them gathered."""
        if not self.gather or self._listed is not None:
            return 0.0
        return self.gather - asyncio.get_running_loop().time() % self.gather

    async def _verify(self, version: int) -> None:
        """A watch from a version that the server has yet to reach would be silent; a list that is
        to be as new is refused. This one has no object."""
        selected = self.selectors.get("fieldSelector")
        params = self.selectors | {
            "fieldSelector": ",".join(filter(None, (selected, NOBODY))),
            "resourceVersion": str(version),
            "resourceVersionMatch": "NotOlderThan",
        }
        await self.api.fetch("GET", self.path, params=params, timeout=self.open_timeout)

    async def _list_in_pages(self) -> None:
        """All of them, or none. Not at version 0, at which an API server answers the whole list at
        once, whatever the page."""
        accept = self.accept.replace("PartialObjectMetadata;", "PartialObjectMetadataList;")
        listed: dict[Hashable, T] = {}
        place = {}
        if self._floor not in ("", "0"):
            place = {"resourceVersion": self._floor, "resourceVersionMatch": "NotOlderThan"}
        while True:
            page = await self.api.request(
                "GET",
                self.path,
                params=self.selectors | place | {"limit": str(PAGE)},
                accept=accept,
                timeout=self.open_timeout,
            )
            try:
                version, rest = self._take_page(page, listed)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise Unreachable(f"{self.path}: no list: {error!r:.200}") from error
            if not rest:
                break
            place = {"continue": rest}
        self._replaced(listed, version)

    def _take_page(self, page: dict[str, Any], listed: dict[Hashable, T]) -> tuple[int, str]:
        """The version of the list, and what asks for the next page, "" for none."""
        head = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
        for item in page["items"] or ():
            document = self.decode(json.dumps(head | item, separators=(",", ":")).encode())
            listed[document.key] = document
        metadata = page["metadata"]
        return _comparable(metadata["resourceVersion"]), metadata.get("continue") or ""

    def _replaced(self, listed: dict[Hashable, T], version: int) -> None:
        documents, self._listed = tuple(listed.values()), None
        self.sink.replaced(documents, version)
        self._version = version
        detail = fields(path=self.path, objects=len(documents), version=version)
        logger.info("collection listed", extra=detail)

    def _params(self, seconds: int) -> dict[str, str]:
        params = self.selectors | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        if self._version is not None:
            self._listed = None
            return params | {"resourceVersion": str(self._version)}
        self._listed = {}
        return params | {
            "resourceVersion": self._floor,
            "resourceVersionMatch": "NotOlderThan",
            "sendInitialEvents": "true",
        }

    def _take(self, line: bytes) -> None:
        event = parse_event(line, self.decode)
        if isinstance(event, Bookmark):
            self._bookmark(event)
        elif self._listed is not None:
            self._listed[event.object.key] = event.object
            if event.type is EventType.DELETED:
                del self._listed[event.object.key]
        else:
            is_deleted = event.type is EventType.DELETED
            (self.sink.deleted if is_deleted else self.sink.changed)(event.object)
            self._version = event.object.resource_version

    def _bookmark(self, bookmark: Bookmark) -> None:
        version = _comparable(bookmark.resource_version)
        if self._listed is None:
            self.sink.at(version)
            self._version = version
        elif bookmark.is_initial_end:
            self._replaced(self._listed, version)
        # Else amid the list: it is not whole yet.


def _comparable(version: str) -> int:
    # etcd's revisions are int64.
    if not (version.isascii() and version.isdecimal() and len(version) < 20):
        raise Unreachable(f"a resourceVersion that cannot be compared: {version!r:.80}")
    return int(version)
