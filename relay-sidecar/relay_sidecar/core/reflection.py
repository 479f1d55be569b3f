"""One upstream stream as a machine: what to ask for next, and what an answer means.

Owns the order of requests, their timing and what is known of a list that is not complete yet;
knows no sockets and no objects beyond their pages. Guarantees: a watch begins where the last one
or the list ended, so that no event is skipped; a list is whole or not there; nothing is asked
while the link is down; whatever goes wrong, the next try comes, but never in a tight loop.

A watch that upstream has accepted is open; it is live once it is known to have caught up. Nothing
on the watch itself says so: the events that were missed come without a mark at their end, and the
next bookmark may be a minute away, or one that was sent a minute ago, on a slow link. The proof is
a list that was asked for after the opening (`core/confirming.py` says when and which): the stream
has caught up once it comes to the list's version, and while it holds just what the list tells.

    listing ──(last page)──► watching ◄──┐ ended, cut off, silent: again from the last version
       ▲  ▲                   │  │  └────┘
       │  └─(token expired)   │  └─ 410, 404, a version that went back, relist
       └──────────────────────┘
"""

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from edge_sidecars.apimachinery.objects import Item, Malformed, Page
from relay_sidecar.core.stream_backoff import StreamBackoff

# client-go pages by 500; twice that halves the round trips, and a page stays near 3 MB.
PAGE_LIMIT: Final = 1000
# So many objects beyond the first page are listed at once after all: kube-apiserver answers a
# whole list from its cache, several times as fast as pages; 3 KB each, they are 60 MB for a moment.
WHOLE_LIMIT: Final = 20_000
# client-go watches for five to ten minutes; the upper end costs the link less.
WATCH_TIMEOUT: Final = (480, 600)
# kube-apiserver sends a bookmark at least every 75 s (a minute and its jitter:
# k8s.io/apiserver/pkg/storage/cacher).
SILENCE_LIMIT: Final = 90.0
# So many silences in a row, and the version is suspected to be one that upstream has yet to reach:
# an API server over an etcd that was restored from a backup stays silent on such a watch.
SILENCES_MAX: Final = 3
# client-go calls a watch that ends within a second and brought nothing a very short watch.
SHORT_WATCH: Final = 1.0
# A watch that was open for so long proves that upstream is well.
GOOD_WATCH: Final = 5.0
# Seconds from the start of a watch that brought something to the next one, at least.
PACE: Final = 1.0


class Trouble(Enum):
    """Why a list or watch failed."""

    UNREACHABLE = auto()
    """No answer, or the connection broke."""
    EXPIRED = auto()
    """410, as a status or as an event; or the version or token is refused in any other way."""
    DENIED = auto()
    """401 or 403."""
    GONE_RESOURCE = auto()
    """404: the resource is not served (any more)."""
    THROTTLED = auto()
    """429."""
    BROKEN = auto()
    """5xx, or what cannot be read."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Ask for a page; limit 0 asks for the whole list. Never with a resourceVersion."""

    continue_token: str
    limit: int


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """With allowWatchBookmarks, never with sendInitialEvents."""

    version: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then, or until something is reported."""

    until: float


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """End the request that runs; nothing of it is to be reported any more."""

    reason: str


Command = ListRequest | WatchRequest | Wait | CloseRequest


class _Flight(Enum):
    NONE = auto()
    LISTING = auto()
    OPENING = auto()
    WATCHING = auto()


class Reflection:
    """Each `ListRequest` and `WatchRequest` is answered by reports until it failed, ended or was
    closed; `version` is where a restored collection stands, None where nothing is known yet."""

    def __init__(self, *, version: int | None = None, is_up: bool = True) -> None:
        self.version = version
        self.is_up = is_up
        self._flight = _Flight.NONE
        self._close_reason = ""
        self._first_page: Page | None = None
        self._items: list[Item] = []
        self._continue_token = ""
        self._limit = PAGE_LIMIT
        self._asked_at = self._heard_at = -math.inf
        self._has_brought = False
        self._backoff = StreamBackoff()
        self._silences = 0
        # When upstream accepted the watch, or when what it proved since was last thrown away.
        self._opened_at = math.inf
        # The lowest version of a list that was asked for since.
        self._goal: int | None = None
        # When a list below where the stream stood was told first.
        self._below_at = math.inf

    def is_live(self, now: float, *, equal_at: int = 0) -> bool:
        """What happens upstream comes here, and nothing from before the watch is missing.
        `equal_at`: a version at which upstream held what is held here now."""
        if self._goal is None or not self.is_open(now):
            return False
        return max(self.version or 0, equal_at) >= self._goal

    def is_open(self, now: float) -> bool:
        """The watch is open and not silent: what happens upstream comes here."""
        return (
            self.is_up
            and self._flight is _Flight.WATCHING
            and not self._close_reason
            and now < self._silent_at
        )

    def next(self, now: float, chance: float) -> Command:
        """What to do now; `chance` is from [0, 1)."""
        if self._flight is not _Flight.NONE:
            return self._go_on(now)
        if not self.is_up:
            return Wait(math.inf)
        if now < self._backoff.retry_at:
            return Wait(self._backoff.retry_at)
        self._asked_at = self._heard_at = now
        self._has_brought = False
        if self.version is None:
            self._flight = _Flight.LISTING
            return ListRequest(self._continue_token, self._limit)
        self._flight = _Flight.OPENING
        shortest, longest = WATCH_TIMEOUT
        return WatchRequest(self.version, shortest + int(chance * (longest - shortest + 1)))

    # ── reports ──

    def page(self, page: Page, now: float) -> Page | None:
        """The answer to `ListRequest`; the whole list once it is there.

        Raises `Malformed` for a page of another list, which is to be reported as BROKEN.
        """
        if self._flight is not _Flight.LISTING or self._close_reason:
            return None
        first = self._first_page or page
        if page.version != first.version:
            self._forget_pages()
            raise Malformed(f"pages of one list at versions {first.version} and {page.version}")
        self._flight = _Flight.NONE
        self._heard_at = now
        if page.continue_token and not self._items and _is_short(page):
            self._limit = 0
            return None
        if page.continue_token:
            self._first_page = first
            self._items.extend(page.items)
            self._continue_token = page.continue_token
            return None
        items = [*self._items, *page.items] if self._items else page.items
        self._forget_pages()
        self.version = page.version
        return Page(page.kind, page.api_version, page.version, "", items)

    def opened(self, now: float) -> None:
        """Upstream accepted the watch."""
        if self._flight is _Flight.OPENING:
            self._flight = _Flight.WATCHING
            self._heard_at = now
            self.doubt(now)

    def doubt(self, now: float) -> None:
        """Whether the watch has caught up is to be proved by a list that is asked for from now on:
        it was just opened, or this process stood still, and what came meanwhile is yet unread."""
        self._opened_at = now
        self._goal = None

    def received(self, version: int, now: float) -> bool:
        """An event or bookmark that has been taken in; the next watch begins there. Whether
        upstream went back.

        It counts even if the watch was closed meanwhile: it must not be asked for again.
        """
        if self.version is None:
            return False
        if version < self.version:
            return self._flight is _Flight.WATCHING and self._goes_back(version, now)
        if self._flight is _Flight.WATCHING:
            self._heard_at = now
            self._has_brought |= version > self.version
            self._silences = 0
        self.version = version
        return False

    def listed(self, version: int, now: float, *, asked_at: float, at_least: int) -> bool:
        """Upstream has told a list's version, beside the watch. Whether upstream went back.

        `at_least`: where the stream stood when the list was asked for, at `asked_at`. While the
        watch is open, a list below that may come from another relay above, which answers from
        another of its streams: only a second one, asked for after the first, is believed.
        """
        if self.version is None:
            return False
        if version < at_least:
            if self._flight is not _Flight.WATCHING or asked_at >= self._below_at:
                return self._goes_back(version, now)
            self._below_at = min(self._below_at, now)
            self._goal = None
            return False
        self._below_at = math.inf
        if self._flight is _Flight.WATCHING and asked_at >= self._opened_at:
            self._goal = version if self._goal is None else min(self._goal, version)
        return False

    def ended(self, now: float, chance: float) -> None:
        """Upstream closed the watch in order."""
        if self._flight is _Flight.NONE:
            return
        is_short = not self._has_brought and now - self._asked_at < SHORT_WATCH
        self._end_watch(now)
        if is_short:
            self._backoff.was_barren(now, chance)
        self._keep_pace()

    def failed(
        self, trouble: Trouble, now: float, chance: float, *, retry_after: float = 0.0
    ) -> None:
        """The list or watch failed; `retry_after` is upstream's own wish, in seconds."""
        flight = self._flight
        if flight is _Flight.NONE:
            return
        self._end_watch(now)
        match trouble:
            case Trouble.EXPIRED if flight is _Flight.LISTING:
                self._token_expired(now, chance)
            case Trouble.EXPIRED:
                self.version = None
                # The first one is nobody's fault; a second without any event between is a loop.
                self._backoff.was_barren(now, chance, free=1)
            case Trouble.DENIED | Trouble.GONE_RESOURCE:
                if trouble is Trouble.GONE_RESOURCE:
                    self._forget_pages()
                    self.version = None
                self._backoff.refused(now, chance)
            case Trouble.THROTTLED:
                self._backoff.throttled(now, chance)
            case Trouble.UNREACHABLE | Trouble.BROKEN:
                self._backoff.failed(now, chance)
        self._keep_pace()
        self._backoff.asked(retry_after, now)

    def link(self, is_up: bool, now: float) -> None:
        """The link went or came back."""
        if is_up == self.is_up:
            return
        self.is_up = is_up
        if is_up:
            self._backoff.link_is_back(now)

    def relist(self, now: float, *, is_paced: bool = False) -> None:
        """What is known is doubtful: begin again; at once (the schema changed), or where it may
        repeat (upstream went back, as a client was told), later each time."""
        self._forget_pages()
        self.version = None
        if is_paced:
            self._backoff.was_barren(now, 0.0, free=1)
        else:
            self._backoff.end(now)
        if self._flight is not _Flight.NONE:
            self._close_reason = "list again"

    # ── inside ──

    def _go_on(self, now: float) -> Command:
        """What is to be done about the request that runs."""
        reason = self._close_reason
        is_watch = self._flight in (_Flight.OPENING, _Flight.WATCHING)
        if not reason and not self.is_up:
            reason = "the link is down"
        elif not reason and is_watch and now >= self._silent_at:
            reason = f"silent for {SILENCE_LIMIT:g} s"
            self._silences += 1
            if self._silences >= SILENCES_MAX:
                self._silences = 0
                self.version = None
        if not reason:
            return Wait(self._silent_at if is_watch else math.inf)
        self._land()
        return CloseRequest(reason)

    @property
    def _silent_at(self) -> float:
        return self._heard_at + SILENCE_LIMIT

    def _end_watch(self, now: float) -> None:
        """One that was worth its while proves that upstream is well."""
        is_watch = self._flight is _Flight.WATCHING
        if is_watch and (self._has_brought or now - self._asked_at >= GOOD_WATCH):
            self._backoff.was_good()
        self._land()

    def _land(self) -> None:
        self._flight = _Flight.NONE
        self._close_reason = ""
        self._opened_at = math.inf
        self._goal = None

    def _goes_back(self, version: int, now: float) -> bool:
        """The only thing left is a new list."""
        if self._flight in (_Flight.OPENING, _Flight.WATCHING):
            self._close_reason = f"upstream went back from {self.version} to {version}"
        self.version = None
        self._below_at = math.inf
        self._backoff.was_barren(now, 0.0, free=1)
        return True

    def _keep_pace(self) -> None:
        """Upstream may end each watch after one event."""
        if self._has_brought:
            self._backoff.not_before(self._asked_at + PACE)

    def _forget_pages(self) -> None:
        self._first_page = None
        self._items = []
        self._continue_token = ""
        self._limit = PAGE_LIMIT

    def _token_expired(self, now: float, chance: float) -> None:
        """A list that takes longer than etcd keeps its version is asked for as a whole, as
        client-go's pager does (k8s.io/client-go/tools/pager, FullListIfExpired)."""
        is_paged = bool(self._continue_token)
        self._forget_pages()
        if is_paged:
            self._limit = 0
            return
        self._backoff.failed(now, chance)


def _is_short(first: Page) -> bool:
    return first.remaining is not None and first.remaining <= WHOLE_LIMIT
