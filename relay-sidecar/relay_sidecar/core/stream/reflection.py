"""One upstream stream as a machine: what to ask for next, and what an answer means.

Owns the order of requests and their timing; knows no sockets and no objects beyond their pages.
Guarantees: a watch begins where the last one or the list ended, so that no event is skipped;
nothing is asked while the link is down; whatever goes wrong, the next try comes, but never in a
tight loop.

A watch that upstream has accepted is open; it is live once it is known to have caught up
(`CatchUp`). Both are functions of `now` and of the link, whose own state is one of `now`: after a
suspend neither is true, before anything was reported. What is begun and ended follows the reports
(`link`), since connections are given up with them.

GM and LC reflect by `edge_sidecars.kubeapi.reflector`, which has no such rules: it reads a relay on
localhost that has proved all this, and gets its lists as watches (WatchList), which an API server
may lack.

    listing ──(last page)──► watching ◄──┐ ended, cut off, silent: again from the last version
       ▲  ▲                   │  │  └────┘
       │  └─(token expired)   │  └─ 410, 404, a version that went back, relist, three in vain
       └──────────────────────┘
"""

import math
from enum import Enum, auto
from typing import Final, Protocol

from edge_sidecars.apimachinery.objects import Page
from relay_sidecar.core.stream.commands import (
    CloseRequest,
    Command,
    Trouble,
    Wait,
    WatchRequest,
)
from relay_sidecar.core.stream.lists import PagedList
from relay_sidecar.core.stream.pace import StreamBackoff

# Seconds; client-go watches for five to ten minutes; the upper end costs the link less.
WATCH_TIMEOUT: Final = 600
# Of it, the shortest watch: not all that were opened together end together.
SHORTEST_PART: Final = 0.8
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
# So many watches in a row that upstream accepts and that bring nothing they could go on from, and
# the version is at fault: client-go lists anew after one.
FRUITLESS_MAX: Final = 3
# Seconds from the start of a watch that brought something to the next one, at least.
PACE: Final = 1.0


class LinkVerdict(Protocol):
    """Of the link to upstream, at a moment of the boot clock."""

    def is_up(self, now: float) -> bool: ...

    def is_behind(self, now: float) -> bool:
        """This process stood still, and what came meanwhile is unread."""
        ...


class CatchUp:
    """Whether an open watch has caught up with upstream. Nothing on the watch itself shows it: the
    events that were missed come without a mark at their end, and the next bookmark may be a minute
    away, or one that was sent a minute ago, on a slow link. The proof is a list that was requested
    after the opening (`confirmation` decides when and which): the stream has caught up once it
    comes to the list's version, and while it holds just what the list shows."""

    def __init__(self) -> None:
        # When upstream accepted the watch, or when what it proved since was last thrown away.
        self._began_at = math.inf
        # The lowest version of a list that was requested since.
        self._goal: int | None = None
        # When a list below the stream's version came first.
        self._below_at = math.inf

    def begin(self, now: float) -> None:
        """Only lists that are requested from now on prove anything."""
        self._began_at = now
        self._goal = None

    def end(self) -> None:
        self.begin(math.inf)

    def is_reached(self, version: int) -> bool:
        return self._goal is not None and version >= self._goal

    def listed(self, version: int, *, asked_at: float) -> None:
        """Upstream was at `version`, which is not below the stream's."""
        self._below_at = math.inf
        if asked_at >= self._began_at:
            self._goal = version if self._goal is None else min(self._goal, version)

    def is_below_again(self, now: float, *, asked_at: float) -> bool:
        """A list was below the stream's version. Whether one has been before: it may come from an
        upstream relay, which answers from another of its streams, so that only a second one,
        requested after the first, counts."""
        if asked_at >= self._below_at:
            return True
        self._below_at = min(self._below_at, now)
        self._goal = None
        return False

    def went_back(self) -> None:
        """A list below the stream's version has counted."""
        self._below_at = math.inf


class _Flight(Enum):
    NONE = auto()
    LISTING = auto()
    OPENING = auto()
    WATCHING = auto()


class Reflection:
    """Each `ListRequest` and `WatchRequest` is answered by reports until it failed, ended or was
    closed; `version` is that of a restored collection, None where nothing is cached yet.
    `may_ask`: the link was up when it was reported last. A watch lasts `watch_timeout` seconds at
    most."""

    def __init__(
        self,
        link: LinkVerdict,
        *,
        version: int | None = None,
        may_ask: bool = True,
        watch_timeout: int = WATCH_TIMEOUT,
    ) -> None:
        self.version = version
        self.may_ask = may_ask
        self._longest = watch_timeout
        self._shortest = int(SHORTEST_PART * watch_timeout)
        self._link = link
        self._flight = _Flight.NONE
        self._close_reason = ""
        self._list = PagedList()
        self._asked_at = self._heard_at = -math.inf
        self._has_brought = False
        self._backoff = StreamBackoff()
        self._silences = 0
        # Watches in a row that ended soon, at the same version.
        self._fruitless = 0
        # A list was answered since the last of these.
        self._lists_work = False
        self._catch_up = CatchUp()

    def is_live(self, now: float, *, equal_at: int = 0) -> bool:
        """What happens upstream comes here, and nothing from before the watch is missing.
        `equal_at`: a version at which upstream had the objects that are here now."""
        is_heard = self._link.is_up(now) and not self._link.is_behind(now)
        return is_heard and self.was_live(now, equal_at=equal_at)

    def was_live(self, now: float, *, equal_at: int = 0) -> bool:
        """The same as of upstream's latest answer."""
        return self.is_watching(now) and self._catch_up.is_reached(max(self.version or 0, equal_at))

    def is_open(self, now: float) -> bool:
        """The watch is open and not silent: what happens upstream comes here."""
        return self._link.is_up(now) and self.is_watching(now)

    def is_watching(self, now: float) -> bool:
        """A watch runs that upstream has accepted, and that is not about to be ended."""
        return (
            self.may_ask
            and self._flight is _Flight.WATCHING
            and not self._close_reason
            and now < self._silent_at
        )

    def next(self, now: float, chance: float) -> Command:
        """What to do now; `chance` is from [0, 1)."""
        if self._flight is not _Flight.NONE:
            return self._go_on(now)
        if not self.may_ask:
            return Wait(math.inf)
        if now < self._backoff.retry_at:
            return Wait(self._backoff.retry_at)
        self._asked_at = self._heard_at = now
        self._has_brought = False
        if self.version is None:
            self._flight = _Flight.LISTING
            return self._list.request()
        self._flight = _Flight.OPENING
        spread = self._longest - self._shortest
        return WatchRequest(self.version, self._shortest + int(chance * (spread + 1)))

    # ── reports ──

    def page(self, page: Page, now: float) -> Page | None:
        """The answer to `ListRequest`; the whole list once it is there.

        Raises `Malformed` for a page of another list, which is to be reported as BROKEN.
        """
        if self._flight is not _Flight.LISTING or self._close_reason:
            return None
        whole = self._list.take(page)
        self._flight = _Flight.NONE
        self._heard_at = now
        if whole is not None:
            self.version = whole.version
        return whole

    def sent(self, now: float) -> None:
        """The watch that was to be asked for goes out: it had to wait for others."""
        if self._flight is _Flight.OPENING:
            self._asked_at = self._heard_at = now

    def opened(self, now: float) -> None:
        """Upstream accepted the watch."""
        if self._flight is _Flight.OPENING:
            self._flight = _Flight.WATCHING
            self._heard_at = now
            self.doubt(now)

    @property
    def is_opened(self) -> bool:
        """Upstream accepted the watch that runs."""
        return self._flight is _Flight.WATCHING

    def progressed(self, now: float) -> None:
        """A part of an event has come, which takes long on a thin link: the watch is not silent."""
        if self.is_opened:
            self._heard_at = now

    def doubt(self, now: float) -> None:
        """That the watch has caught up is to be proved by a list that is requested from now on: it
        was just opened, or this process stood still, and what came meanwhile is unread."""
        self._catch_up.begin(now)

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
        """A list beside the watch has this version. Whether upstream went back.

        `at_least`: the stream's version when the list was requested, at `asked_at`. While the
        watch is open, a list below that counts at the second time only (`CatchUp`).
        """
        self._lists_work = True
        if self.version is None:
            return False
        is_watching = self._flight is _Flight.WATCHING
        if version >= at_least:
            self._catch_up.listed(version, asked_at=asked_at if is_watching else -math.inf)
            return False
        if is_watching and not self._catch_up.is_below_again(now, asked_at=asked_at):
            return False
        return self._goes_back(version, now)

    def ended(self, now: float, chance: float) -> None:
        """Upstream closed the watch in order."""
        if self._flight is _Flight.NONE:
            return
        is_short = not self._has_brought and now - self._asked_at < SHORT_WATCH
        self._count_fruitless(now, is_opened=True)
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
        if trouble is Trouble.BROKEN and flight is not _Flight.LISTING:
            self._count_fruitless(now, is_opened=flight is _Flight.WATCHING)
        self._end_watch(now)
        match trouble:
            case Trouble.EXPIRED if flight is _Flight.LISTING:
                if not self._list.expire():
                    self._backoff.failed(now, chance)
            case Trouble.EXPIRED:
                self.version = None
                # The first one is in order; a second without any event between is a loop.
                self._backoff.was_barren(now, chance, free=1)
            case Trouble.DENIED | Trouble.GONE_RESOURCE:
                if trouble is Trouble.GONE_RESOURCE:
                    self._list.clear()
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
        if is_up == self.may_ask:
            return
        self.may_ask = is_up
        if is_up:
            self._backoff.link_is_back(now)

    def reopen(self) -> None:
        """There is another way to upstream: an open watch goes on there, at its cursor."""
        if self._flight is _Flight.WATCHING and not self._close_reason:
            self._close_reason = "another way to upstream"

    def relist(self, now: float, *, is_paced: bool = False) -> None:
        """What is cached is doubtful: begin again; at once (the schema changed), or where it may
        repeat (upstream went back, as a client's list showed), later each time."""
        self._list.clear()
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
        if not reason and not self.may_ask:
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

    def _count_fruitless(self, now: float, *, is_opened: bool) -> None:
        """Whatever goes wrong with watches from one version on, while upstream answers lists: only
        a new list helps. An API server that accepts no watch may answer nothing at all."""
        if self._has_brought or now - self._asked_at >= GOOD_WATCH:
            self._fruitless = 0
            return
        self._fruitless += 1
        if self._fruitless >= FRUITLESS_MAX and (is_opened or self._lists_work):
            self._fruitless = 0
            self.version = None
        self._lists_work = False

    def _end_watch(self, now: float) -> None:
        """One that was worth its while proves that upstream is well."""
        is_watch = self._flight is _Flight.WATCHING
        if is_watch and (self._has_brought or now - self._asked_at >= GOOD_WATCH):
            self._backoff.was_good()
        self._land()

    def _land(self) -> None:
        self._flight = _Flight.NONE
        self._close_reason = ""
        self._catch_up.end()

    def _goes_back(self, version: int, now: float) -> bool:
        """The only thing left is a new list."""
        if self._flight in (_Flight.OPENING, _Flight.WATCHING):
            self._close_reason = f"upstream went back from {self.version} to {version}"
        self.version = None
        self._catch_up.went_back()
        self._backoff.was_barren(now, 0.0, free=1)
        return True

    def _keep_pace(self) -> None:
        """Upstream may end each watch after one event."""
        if self._has_brought:
            self._backoff.not_before(self._asked_at + PACE)
