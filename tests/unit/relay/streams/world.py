"""A relay's stream over an upstream that fails, in virtual time, with informers that follow it.

Plays the shell's part: performs what `Reflection` says, feeds `Collection`, keeps objects and
cursor for restarts. Asserts at every step that the machine asks for one thing at a time, never
while the link is down and never without end at one moment, that the collection holds what
upstream held at its cursor, and that a stream which counts as live holds what was true when its
watch was opened, or what came later.
"""

from dataclasses import dataclass

from edge_sidecars.apimachinery.objects import Malformed, read_event, read_page
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.store import Collection, fingerprint_of
from edge_sidecars.apimachinery.watch_events import EventType
from relay_sidecar.core.stream.commands import (
    CloseRequest,
    ListEvidence,
    ListRequest,
    Trouble,
    Wait,
    WatchRequest,
)
from relay_sidecar.core.stream.pace import Confirming
from relay_sidecar.core.stream.reflection import Reflection
from relay_sidecar.streams.stream import Stream
from relay_sidecar.telemetry.metrics import RelayCounters
from tests.unit.relay.streams.informer import Informer
from tests.unit.relay.streams.link import FixedLink
from tests.unit.relay.streams.upstream import Gone, Selector, Upstream, expired_line

PODS = ListScope(ResourceName("", "v1", "pods"))
# More commands than this at one moment are a loop.
COMMANDS_AT_ONCE = 12


@dataclass
class Request:
    command: ListRequest | WatchRequest
    is_open: bool = False
    # Up to which revision the watch has been told.
    told: int = 0
    # Where upstream stood when it accepted the watch, or when the process woke.
    opened_at: int = 0


@dataclass
class Question:
    """What upstream is asked beside the watch."""

    limit: int
    asked_at: float
    version: int
    # What it answers, once it has looked.
    body: bytes = b""


class World:
    def __init__(
        self, selector: Selector, *, page_limit: int, window_events: int, asks_for_one: bool = False
    ) -> None:
        self.asks_for_one = asks_for_one
        self.upstream = Upstream()
        self.selector = selector
        self.page_limit = page_limit
        self.window_events = window_events
        self.now = 1000.0
        self.chance = 0.5
        self._link = FixedLink()
        self.stream = self._empty()
        self._cursor = 0
        self.reflection = Reflection(self._link)
        self.confirming = Confirming()
        self.question: Question | None = None
        self.request: Request | None = None
        self.wake_at = self.now
        self.informers: list[Informer] = []
        # Events that were read off the wire and are being written to disk.
        self._taken: list[bytes] = []

    @property
    def collection(self) -> Collection:
        return self.stream.collection

    @property
    def is_up(self) -> bool:
        return self._link.state

    @property
    def is_live(self) -> bool:
        return self.reflection.is_live(self.now, equal_at=self.stream.equal_at)

    @property
    def is_open(self) -> bool:
        return self.reflection.is_open(self.now)

    # ── the shell ──

    def pump(self) -> None:
        if self.is_up and self.now >= self.confirming.at:
            assert self.question is None
            objects = len(self.collection.objects)
            limit = self.confirming.asking(self.now, objects=objects, selects=False)
            # Names and versions of few objects, or of many; in this world there are few.
            limit = 1 if self.asks_for_one else limit
            self.question = Question(limit, self.now, self.stream.version)
        for _ in range(COMMANDS_AT_ONCE):
            match self.reflection.next(self.now, self.chance):
                case ListRequest() | WatchRequest() as command:
                    assert self.request is None
                    assert self.is_up
                    assert not self._taken
                    self.request = Request(command)
                    if isinstance(command, WatchRequest):
                        assert command.version <= self.collection.cursor
                        self.request.told = command.version
                case CloseRequest():
                    assert self.request is not None
                    self.request = None
                    self._finish_taking()
                case Wait(until):
                    assert until > self.now
                    self.wake_at = min(until, self.confirming.at)
                    break
        else:
            raise AssertionError("no end of commands")
        self._check()

    def _check(self) -> None:
        assert self.collection.cursor >= self._cursor
        self._cursor = self.collection.cursor
        if self.collection.is_synced:
            held = {key: item.raw for key, item in self.collection.objects.items()}
            assert held == self.upstream.state(self.selector, self.collection.cursor)
        if self.is_live:
            assert self.is_up
            assert self.request is not None
            assert self.request.is_open
            self._check_caught_up(self.request.opened_at)
        for informer in self.informers:
            if informer.is_watching:
                assert informer.state == self.upstream.state(
                    informer.selector, self.collection.cursor
                )

    def _check_caught_up(self, revision: int) -> None:
        """Nothing that happened before the watch was opened is missing."""
        held = {key: item.raw for key, item in self.collection.objects.items()}
        assert self.collection.cursor >= revision or held == self.upstream.state(
            self.selector, revision
        )

    def _finish_taking(self) -> None:
        for line in self._taken:
            event = read_event(line)
            change = self.collection.apply(event)
            if change is not None:
                for informer in self._watching():
                    informer.follow(change)
            if event.type is EventType.BOOKMARK:
                for informer in self._watching():
                    informer.bookmark(self.collection.cursor)
            self.stream.apply([])
            self.reflection.received(event.version, self.now)
        self._taken = []

    def _watching(self) -> list[Informer]:
        return [informer for informer in self.informers if informer.is_watching]

    def _empty(self) -> Stream:
        collection = Collection(window_bytes=1 << 20, window_events=self.window_events)
        return Stream(PODS, collection, RelayCounters(), now=self.now)

    def _failed(self, trouble: Trouble, retry_after: float = 0.0) -> None:
        self.reflection.failed(trouble, self.now, self.chance, retry_after=retry_after)
        self.request = None
        self.confirming.ended()

    # ── upstream answers well ──

    def answer(self, revisions: int, *, slowly: bool = False) -> None:
        """The next page; or the watch is accepted; or the events of some revisions come.

        Slowly: they are still being written to disk when the next thing happens.
        """
        self._finish_taking()
        request = self.request
        if request is None:
            return
        if isinstance(request.command, ListRequest):
            self._give_page(request.command)
        elif not request.is_open:
            self._open(request, request.command)
        else:
            self._take(request, revisions)
            if not slowly:
                self._finish_taking()

    def _give_page(self, command: ListRequest) -> None:
        limit = min(command.limit, self.page_limit)
        try:
            body = self.upstream.page(self.selector, command.continue_token, limit)
        except Gone:
            self._failed(Trouble.EXPIRED)
            return
        whole = self.reflection.page(read_page(body), self.now)
        self.request = None
        if whole is None:
            return
        self.stream.replace(whole, gone=expired())
        for informer in self._watching():
            informer.list(self.collection)

    def _open(self, request: Request, command: WatchRequest) -> None:
        # Some versions answer 410 as a status, others as the first event.
        is_gone = command.version < self.upstream.compacted
        if is_gone and self.upstream.revision % 2:
            self._failed(Trouble.EXPIRED)
            return
        self.reflection.opened(self.now)
        self.confirming.opened(self.now, self.chance)
        request.is_open = True
        request.opened_at = self.upstream.revision
        if is_gone:
            assert read_event(expired_line()).status is not None
            self._failed(Trouble.EXPIRED)

    def _take(self, request: Request, revisions: int) -> None:
        lines = self._untold(request)
        ends = sorted({revision for revision, _ in lines})[:revisions]
        if ends:
            self._taken = [line for revision, line in lines if revision <= ends[-1]]
            request.told = ends[-1]

    def _untold(self, request: Request) -> list[tuple[int, bytes]]:
        # What is compacted does not end a watch that is open: the API server has it in memory.
        compacted, self.upstream.compacted = self.upstream.compacted, 0
        lines = self.upstream.lines(self.selector, request.told)
        self.upstream.compacted = compacted
        return lines

    def bookmark(self) -> None:
        self._finish_taking()
        request = self.request
        if request is None or not request.is_open:
            return
        self._take(request, 1000)
        self._taken.append(self.upstream.bookmark())
        request.told = self.upstream.revision
        self._finish_taking()

    def look(self) -> None:
        """Upstream looks at what is asked beside the watch; its answer is on its way."""
        question = self.question
        if question is not None and not question.body:
            question.body = self.upstream.page(self.selector, "", question.limit)

    def tell(self) -> None:
        """That answer arrives; later ones of the watch may be here before."""
        question = self.question
        if question is None or not question.body:
            return
        page = read_page(question.body)
        self.question = None
        self.confirming.answered(self.now)
        is_back = self.reflection.listed(
            page.version, self.now, asked_at=question.asked_at, at_least=question.version
        )
        assert not is_back
        fingerprint = None if page.continue_token else fingerprint_of(page.items)
        told = ListEvidence(
            page.version, fingerprint, question.asked_at, self.now, question.version
        )
        self.stream.expect(told)

    def want(self) -> None:
        """Somebody waits for an answer that is of now."""
        self.confirming.wanted(self.now)

    # ── what strikes ──

    def stand_still(self, seconds: float) -> None:
        """The process does, and upstream does not."""
        self.sleep(seconds)
        self.reflection.doubt(self.now)
        if self.reflection.is_open(self.now) and self.request is not None:
            self.request.opened_at = self.upstream.revision
            self.confirming.opened(self.now, self.chance)

    def lose_question(self) -> None:
        if self.question is not None:
            self.question = None
            is_open = self.reflection.is_open(self.now)
            is_needed = is_open and not self.is_live
            self.confirming.failed(self.now, self.chance, is_needed=is_needed)

    def fail(self, trouble: Trouble, retry_after: float) -> None:
        self._finish_taking()
        if self.request is not None:
            self._failed(trouble, retry_after)

    def end_watch(self) -> None:
        self._finish_taking()
        if self.request is not None and self.request.is_open:
            self.reflection.ended(self.now, self.chance)
            self.confirming.ended()
            self.request = None

    def garble(self, cut: int) -> None:
        """A line of a watch, or a page, arrives in part and the connection is gone."""
        self._finish_taking()
        request = self.request
        if request is None:
            return
        if isinstance(request.command, ListRequest):
            body = self.upstream.page(self.selector, "", 0)
            self._assert_malformed(lambda: read_page(body[: cut % len(body)]))
        elif request.is_open and (lines := self._untold(request)):
            line = lines[0][1].rstrip()
            self._assert_malformed(lambda: read_event(line[: cut % len(line)]))
        self._failed(Trouble.BROKEN)

    @staticmethod
    def _assert_malformed(read: object) -> None:
        assert callable(read)
        try:
            read()
        except Malformed:
            return
        raise AssertionError("half a message was taken for a whole one")

    def link(self, is_up: bool) -> None:
        self._link.state = is_up
        self.reflection.link(is_up, self.now)

    def relist(self) -> None:
        self.reflection.relist(self.now)

    def restart(self) -> None:
        """The process was killed; objects and cursor are those of the last commit."""
        self._taken = []
        before, self.request, self.question = self.stream, None, None
        kept = before.collection
        self.stream = self._empty()
        self.confirming = Confirming()
        version = kept.cursor if kept.is_synced else None
        if version is not None:
            self.collection.replace(
                list(kept.objects.values()), version, kind=kept.kind, api_version=kept.api_version
            )
            self.stream.was_equal(before.equal_at)
        self.reflection = Reflection(self._link, version=version, may_ask=self.is_up)
        for informer in self.informers:
            informer.is_watching = False

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def join(self, selector: Selector) -> None:
        if self.collection.is_synced and self.selector.covers(selector):
            informer = Informer(selector)
            informer.list(self.collection)
            self.informers.append(informer)

    def come_back(self) -> None:
        for informer in self.informers:
            if not informer.is_watching and informer.version <= self.collection.cursor:
                informer.watch(self.collection)

    # ── the end ──

    def calm(self) -> float:
        """Nothing strikes any more. Returns how long it takes until all is as upstream has it."""
        began = self.now
        if not self.is_up:
            self.link(True)
        for _ in range(200):
            self.pump()
            if self.request is None:
                self.now = self.wake_at
            elif self.request.is_open:
                self.bookmark()
                self.come_back()
                self.look()
                self.tell()
                if self.is_live:
                    break
                self.now = max(self.now, min(self.confirming.at, self.now + 1))
            else:
                self.answer(1000)
        self.pump()
        assert self.is_live
        assert self.collection.cursor == self.upstream.revision
        for informer in self.informers:
            assert informer.is_watching
            assert informer.version <= self.collection.cursor
        return self.now - began
