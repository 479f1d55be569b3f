"""A relay whose stream goes from hub to hub and to the API server, in virtual time.

Hubs are relays that the API server feeds, each as far as it has come; what one answers a follower
is what `PoolReads` and the sessions of its watches make of its own stream. Plays the shell's part
of the follower, as `World` does, and what `PoolFeed` and the reflector make of a hub's answer:
nothing that a hub says ends the stream, and the API server is asked next at the same version.
"""

from edge_sidecars.apimachinery.objects import read_page
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.store import Expired, fingerprint_of
from relay_sidecar.core.stream.commands import ListEvidence, ListRequest, Trouble, WatchRequest
from tests.unit.relay.streams.samples import bookmark_line, encoded, line
from tests.unit.relay.streams.upstream import Gone, Selector
from tests.unit.relay.streams.world import Request, World

CLOUD = ""


class Away(Exception):
    """No hub now."""


class Hub:
    """What peers may read of a relay."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def life(self) -> tuple[int, int]:
        """With another one, its watches have ended."""
        return id(self.world.stream), self.world.stream.lists

    @property
    def cursor(self) -> int:
        return self.world.collection.cursor

    def page(self) -> bytes:
        """Raises `Away`."""
        self.check()
        prefix = b'{"kind":"Pod","apiVersion":"v1",'
        held = sorted(self.world.collection.objects.items())
        items = b",".join(b"{" + it.raw.removeprefix(prefix) for _, it in held)
        meta = encoded({"resourceVersion": str(self.world.stream.version)})
        return b'{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[%s]}' % (meta, items)

    def lines(self, after: int) -> list[tuple[int, bytes]]:
        """None where the hub has yet to come there. Raises `Gone`."""
        if self.cursor < after:
            return []
        try:
            changes = self.world.collection.since(after)
        except Expired as error:
            raise Gone from error
        return [(it.version, line(it.type, it.item.raw)) for it in changes]

    def check(self) -> None:
        """Raises `Away`."""
        if not self.world.is_live:
            raise Away


class Follower(World):
    """`wanted`: from where the next request is to come; `source`: from where the present one does.
    `is_cut`: the API server is out of reach."""

    def __init__(self, hubs: dict[str, Hub], *, window_events: int, asks_for_one: bool) -> None:
        super().__init__(
            Selector(), page_limit=2, window_events=window_events, asks_for_one=asks_for_one
        )
        self.hubs = hubs
        self.wanted = self.source = CLOUD
        self.is_cut = False
        self._life = (0, 0)

    @property
    def _hub(self) -> Hub | None:
        return self.hubs.get(self.source)

    # ── which source ──

    def turn_to(self, source: str) -> None:
        """Another one comes first now."""
        self.wanted = source
        if source != self.source:
            self.reflection.reopen()
        self._follow_link()

    def cut(self, is_cut: bool) -> None:
        self.is_cut = is_cut
        self._follow_link()

    def _follow_link(self) -> None:
        is_up = self.wanted != CLOUD or not self.is_cut
        if is_up is not self.is_up:
            self.link(is_up)

    def pump(self) -> None:
        before = self.request
        super().pump()
        request = self.request
        if request is before or request is None:
            return
        if not (isinstance(request.command, ListRequest) and request.command.continue_token):
            self.source = self.wanted

    def _leave(self) -> None:
        """The hub's answer is none."""
        self._finish_taking()
        self.wanted = CLOUD
        self._failed(Trouble.UNREACHABLE)
        self._follow_link()

    # ── what a hub answers ──

    def answer(self, revisions: int, *, slowly: bool = False) -> None:
        self._finish_taking()
        hub, request = self._hub, self.request
        if hub is not None and request is not None and request.is_open and hub.life != self._life:
            self._leave()
            return
        try:
            super().answer(revisions, slowly=slowly)
        except (Away, Gone):
            self._leave()

    def _give_page(self, command: ListRequest) -> None:
        hub = self._hub
        if hub is None:
            super()._give_page(command)
            return
        page = read_page(hub.page())
        if page.version < self.stream.version:
            raise Away
        whole = self.reflection.page(page, self.now)
        self.request = None
        assert whole is not None
        self.stream.replace(whole, gone=expired())
        for informer in self._watching():
            informer.list(self.collection)

    def _open(self, request: Request, command: WatchRequest) -> None:
        hub = self._hub
        if hub is None:
            super()._open(request, command)
            return
        hub.check()
        hub.lines(command.version)
        self.reflection.opened(self.now)
        self.confirming.opened(self.now, self.chance)
        request.is_open, request.opened_at, self._life = True, hub.world.stream.version, hub.life

    def _untold(self, request: Request) -> list[tuple[int, bytes]]:
        hub = self._hub
        return super()._untold(request) if hub is None else hub.lines(request.told)

    def bookmark(self) -> None:
        hub, request = self._hub, self.request
        if hub is None:
            super().bookmark()
        elif request is not None and request.is_open:
            self.answer(1000)
            if self.request is request and hub.cursor >= request.told:
                self._taken.append(bookmark_line(hub.cursor))
                request.told = hub.cursor
                self._finish_taking()

    def look(self) -> None:
        hub, question = self._hub, self.question
        if hub is None:
            super().look()
        elif question is not None and not question.body:
            try:
                question.body = hub.page()
            except Away:
                self.lose_question()

    def tell(self) -> None:
        hub, question = self._hub, self.question
        if hub is None or question is None or not question.body:
            super().tell()
            return
        page, self.question = read_page(question.body), None
        found, version = fingerprint_of(page.items), page.version
        if version < question.version:
            if found != self.collection.fingerprint:
                self.confirming.failed(self.now, self.chance, is_needed=not self.is_live)
                return
            version = question.version
        self.confirming.answered(self.now)
        is_back = self.reflection.listed(
            version, self.now, asked_at=question.asked_at, at_least=question.version
        )
        assert not is_back
        self.stream.expect(
            ListEvidence(version, found, question.asked_at, self.now, question.version)
        )

    # ── the end ──

    def settle(self, source: str) -> float:
        """Nothing strikes any more, and all comes from there. Returns the seconds it takes."""
        self.is_cut = False
        self.turn_to(source)
        return self.calm()
