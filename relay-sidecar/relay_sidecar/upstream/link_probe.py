"""Probes upstream regularly, reports when the link's state changes, and persists the last verdict.

The judgement is `core.link`'s. A probe has a connection of its own and a hard deadline, so that a
black hole is noticed as surely as a refusal. A late answer still counts: it shows that the link is
there, and how long a probe takes on it. A relay that starts again in an outage learns of it by one
failure instead of two.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec
from yarl import URL

from edge_sidecars.apimachinery.status import may_be_own_word
from edge_sidecars.kubeapi import ApiTransport, ProxyRefused, Request, TooLong, Unreachable
from edge_sidecars.kubeapi.messages import Identity
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.formats.media_type import is_page
from edge_sidecars.runtime.log import fields, logger, sparing
from relay_sidecar.core.link import (
    NO_ANSWERS,
    NOBODY_THERE,
    SERVER,
    UNAUTHORIZED,
    LinkEvidence,
    ProbeReply,
    ProbeRequests,
    UpstreamLink,
)
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.telemetry.status import LinkState, Outage
from relay_sidecar.upstream.failures import evidence_of

# It needs no rights, and a relay that is upstream answers it too.
PATH = "/livez"
MAX_ANSWER = 64 * 1024
# Some weeks of a bad link; in the journal they take up to 15 KB.
OUTAGES_KEPT = 50
# Characters of the reason of one.
MAX_WHY = 200
# Seconds for which the first requests, all of them together, wait to learn whether there is an
# upstream. Where the process before this one ended in an outage, which is likely to go on: what a
# quick link takes to answer.
FIRST_VERDICT = 0.3
FIRST_VERDICT_IN_OUTAGE = 0.1
# Seconds from the first sign of an outage on in which requests wait for its end, all of them
# together: kubectl, which makes several in a row, is to be answered within a second.
BLIP = 0.5
# What Go's net/http answers to a request without TLS (server.go); with the status 400.
SPEAKS_TLS = b"Client sent an HTTP request to an HTTPS server"
BAD_REQUEST = 400
# Probes under way at a time. The oldest are the next to be answered where round trips are long; the
# newest finds a link that has just healed, over which TCP would send the older ones again only
# after a while.
MAX_PROBES = 4


class LinkProbe:
    """Each of `on_change` is called with each new verdict. `is_logged`: so is each new state.
    `outages`, `present`: of an earlier life, and in which it ended."""

    def __init__(
        self,
        transport: ApiTransport,
        link: UpstreamLink,
        *,
        is_logged: bool = True,
        outages: Sequence[Outage] = (),
        present: Outage | None = None,
    ) -> None:
        self.on_change: list[Callable[[bool], None]] = []
        # Called when this process stood still for a while.
        self.on_standstill: list[Callable[[], None]] = []
        self._transport = transport
        self.link = link
        self._is_logged = is_logged
        # Behind a path there is a gateway; a proxy that forwards may answer OPTIONS * itself.
        is_plain = URL(transport.url).path == "/" and not transport.is_forwarded
        self._probing = ProbeRequests(may_be_brief=is_plain)
        self._told_state: LinkState | None = None
        # Upstream answers the relay's own credentials with 401.
        self._is_unauthorized = False
        # What an outage began with, and when by the boot clock.
        self._down_at: tuple[Outage, float] | None = None
        if present is not None:
            ago = max(time.time() - present.began, 0.0)
            self._down_at = present, boottime() - ago
        self._outages: deque[Outage] = deque(outages, maxlen=OUTAGES_KEPT)
        self._kick = asyncio.Event()
        self._known = asyncio.Event()
        # By the loop's clock, until when requests wait for that; None before the first request.
        self._known_by: float | None = None
        # Why upstream was not reached when that was tried last; "" where it was.
        self._cause = self._logged_cause = ""
        # Those that are under way, the oldest first.
        self._probes: list[asyncio.Task[LinkEvidence]] = []
        # Unix time of the latest answer.
        self.answered_at = 0.0
        # Done with what is learned next, where a request waits for it.
        self._judged: asyncio.Future[None] | None = None

    @property
    def is_up(self) -> bool:
        return self.link.is_up(boottime())

    @property
    def is_behind(self) -> bool:
        """This process stood still, and `on_standstill` is about to be called."""
        return self.link.is_behind(boottime())

    @property
    def may_be_up(self) -> bool:
        """It is, or there is no verdict yet: requests of the first moments are tried."""
        return self.is_up or not self.link.is_known

    @property
    def may_be_asked(self) -> bool:
        """Upstream, or another relay that answers from its cache."""
        return self.may_be_up or self.is_relayed

    @property
    def is_relayed(self) -> bool:
        return self.link.is_relayed(boottime())

    @property
    def state(self) -> LinkState:
        if self.is_up:
            return "unauthorized" if self._is_unauthorized else "up"
        return "relayed" if self.is_relayed else "down"

    @property
    def down_for(self) -> float | None:
        """Seconds; None while it is up, or without a verdict yet."""
        now = boottime()
        since = self.link.down_since(now)
        return None if since is None else now - since

    @property
    def cause(self) -> str:
        """Why upstream is not reached, in words; "" while it is."""
        return "" if self.is_up else self._cause

    @property
    def is_open(self) -> bool:
        """It is not settled whether the link is down: a request may be worth to be repeated."""
        return self.may_be_up

    @property
    def outages(self) -> tuple[Outage, ...]:
        """Those that are over, the newest last."""
        return tuple(self._outages)

    @property
    def present(self) -> Outage | None:
        """What the outage began with that is not over."""
        return None if self._down_at is None else self._down_at[0]

    async def known(self) -> None:
        """Returns when there is a first verdict, or a moment after the first request."""
        if self._known.is_set():
            return
        if self._known_by is None:
            patience = FIRST_VERDICT_IN_OUTAGE if self.link.was_down else FIRST_VERDICT
            self._known_by = asyncio.get_running_loop().time() + patience
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._known_by):
                await self._known.wait()

    async def settled(self) -> bool:
        """Whether upstream can be reached, for a request that found that it cannot: returns when it
        is known again that it can, or that it cannot, which takes `BLIP` seconds from the first
        sign on at least."""
        deadline = boottime() + self.link.probe_timeout + BLIP
        while self.link.is_in_doubt(now := boottime()) and not self.is_relayed:
            until = deadline
            if self.link.is_known and not self.is_up:
                until = min(until, self.link.failing_since + BLIP)
            if now >= until:
                break
            due = self.link.wake_at
            self.link.hurries(now)
            self._wake_before(due)
            if self._judged is None:
                self._judged = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._judged], timeout=until - now)
        return self.may_be_up

    async def until_up(self, timeout: float) -> bool:
        """Returns whether upstream may be asked, at once or at the next verdict that says so, after
        `timeout` seconds at most."""
        if self.may_be_asked:
            return True
        is_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def changed(_: bool) -> None:
            if self.may_be_asked and not is_up.done():
                is_up.set_result(None)

        self.on_change.append(changed)
        try:
            async with asyncio.timeout(timeout):
                await is_up
        except TimeoutError:
            return False
        finally:
            self.on_change.remove(changed)
        return True

    def met(self, outcome: LinkEvidence) -> None:
        """A request met with this."""
        self._look_back()
        if outcome is LinkEvidence.ANSWERED:
            self.answered_at = time.time()
        due = self.link.wake_at
        self.link.met(outcome, boottime())
        self._tell()
        self._wake_before(due)

    def waits(self) -> None:
        """A request has been without an answer for a while."""
        due = self.link.wake_at
        self.link.waits(boottime())
        self._wake_before(due)

    def way_changed(self, *, is_lost: bool) -> None:
        """As `UpstreamLink.way_changed`."""
        self._look_back()
        self.link.way_changed(boottime(), is_lost=is_lost)
        self._tell()
        self._kick.set()

    def _wake_before(self, due: float) -> None:
        if self.link.wake_at < due:
            self._kick.set()

    def authenticated(self, status: int) -> None:
        """Upstream answered a request that bears the relay's own credentials with this."""
        if status == UNAUTHORIZED:
            if sparing.allows(UNAUTHORIZED):
                logger.warning(
                    "upstream refuses the relay's credentials",
                    extra=fields(server=self._transport.url, status=status),
                )
            self._is_unauthorized = True
        elif self._is_unauthorized and status not in NOBODY_THERE:
            self._is_unauthorized = False
            sparing.forget(UNAUTHORIZED)
            logger.info(
                "upstream takes the relay's credentials again",
                extra=fields(server=self._transport.url),
            )

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            await self._run()
        finally:
            for probe in self._probes:
                probe.cancel()

    async def _run(self) -> None:
        while True:
            self._kick.clear()
            self._look_back()
            delay = self.link.wake_at - boottime()
            if delay > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._kick.wait()
                continue
            self.link.probing(boottime())
            outcome = await self._probe()
            self._look_back()
            if outcome is LinkEvidence.ANSWERED:
                self.answered_at = time.time()
            self.link.probed(outcome, boottime())
            self._tell()

    def _look_back(self) -> None:
        """Before anything that came after a standstill counts."""
        if self.is_behind:
            self.link.looked_back(boottime())
            for observer in self.on_standstill:
                observer()

    async def _probe(self) -> LinkEvidence:
        """What it met with by its deadline."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        if len(self._probes) == MAX_PROBES:
            self._probes.pop().cancel()
        probe = loop.create_task(self._outcome())
        self._probes.append(probe)
        probe.add_done_callback(self._ended)
        done, _ = await asyncio.wait({probe}, timeout=self.link.probe_timeout)
        if done:
            return probe.result()
        probe.add_done_callback(self._ended_late)
        # A link that is full of an answer's bytes is there, however late the probe's are.
        if self._transport.has_received_since(began_at):
            return LinkEvidence.ANSWERED
        if not self._cause:
            within = f"{self.link.probe_timeout:.3g}s"
            self._cause = f"no answer from {self._transport.url} within {within}"
        return LinkEvidence.TIMED_OUT

    def _ended(self, probe: asyncio.Task[LinkEvidence]) -> None:
        if probe in self._probes:
            self._probes.remove(probe)

    def _ended_late(self, probe: asyncio.Task[LinkEvidence]) -> None:
        if probe.cancelled():
            return
        outcome = probe.result()
        self._look_back()
        if outcome is LinkEvidence.ANSWERED:
            self.answered_at = time.time()
        due = self.link.wake_at
        self.link.probed_late(outcome, boottime())
        self._tell()
        self._wake_before(due)

    async def _outcome(self) -> LinkEvidence:
        try:
            return await self._ask()
        except ProxyRefused as error:
            if sparing.allows("detour"):
                logger.warning("no connection through the proxy", extra=fields(why=error))
            return self._failed(error)
        except Unreachable as error:
            return self._failed(error)
        except TooLong as error:
            self._cause = f"the answer to {PATH} is {error}"
            return LinkEvidence.REFUSED

    def _failed(self, error: Unreachable) -> LinkEvidence:
        self._cause = str(error)
        return evidence_of(error)

    async def _ask(self) -> LinkEvidence:
        if self._probing.is_brief(in_doubt=self._is_in_doubt or self._is_unauthorized):
            reply = await self._send("OPTIONS", "*", identity="none")
            # Others may have met with a failure meanwhile.
            if self._probing.briefly_answered(reply) and not self._is_in_doubt:
                return LinkEvidence.ANSWERED
        reply = await self._send("GET", PATH)
        content_type = reply.headers.get("Content-Type", "")
        is_own = may_be_own_word(reply.status, content_type, reply.body)
        if not is_own or reply.status in NOBODY_THERE | NO_ANSWERS:
            is_relay = reply.headers.get("Server") == SERVER
            page = ", with a web page" if is_page(content_type) else ""
            self._cause = f"{self._transport.url} answers {reply.status} to {PATH}{page}"
            return LinkEvidence.RELAYED if is_relay else LinkEvidence.REFUSED
        self.authenticated(reply.status)
        self._probing.answered(reply)
        return LinkEvidence.ANSWERED

    @property
    def _is_in_doubt(self) -> bool:
        return self.link.is_in_doubt(boottime())

    async def _send(self, method: str, target: str, *, identity: Identity = "own") -> ProbeReply:
        timeout = self.link.max_probe_timeout
        request = Request(
            method,
            target,
            header_timeout=timeout,
            connect_timeout=timeout,
            identity=identity,
            outlasts_abort=True,
        )
        async with self._transport.send(request) as answer:
            self.link.round_trip_took(answer.waited)
            body = await answer.read(limit=MAX_ANSWER, idle_timeout=timeout)
            if answer.status == BAD_REQUEST and SPEAKS_TLS in body:
                raise Unreachable(f"{self._transport.url} speaks https at this port: name it so")
            return ProbeReply(answer.status, answer.headers, answer.peer_names, bytes(body))

    def _tell(self) -> None:
        judged, self._judged = self._judged, None
        if judged is not None:
            judged.set_result(None)
        if not self.link.is_known:
            return
        is_up = self.is_up
        if is_up:
            self._cause = ""
        state: LinkState = "up" if is_up else "relayed" if self.is_relayed else "down"
        before, self._told_state = self._told_state, state
        if self._is_logged and (state != before or self._logged_cause != self._cause):
            self._log(state)
        if state == before:
            return
        if before == "relayed" and state == "down":
            # What was asked of the relay above waits in vain.
            self._transport.abort()
        if before is not None and is_up == (before == "up"):
            return
        self._known.set()
        self._note_outage(is_up=is_up)
        for observer in self.on_change:
            observer(is_up)

    def _log(self, state: LinkState) -> None:
        self._logged_cause = self._cause
        about = fields(server=self._transport.url)
        match state:
            case "up":
                logger.info("upstream is reached", extra=about)
            case "relayed":
                logger.info("upstream is a relay that is cut off itself", extra=about)
            case _:
                why = fields(server=self._transport.url, why=self._cause)
                logger.info("upstream is out of reach", extra=why)

    def _note_outage(self, *, is_up: bool) -> None:
        now = boottime()
        if not is_up and self._down_at is None:
            began = self.link.down_since(now) or now
            self._down_at = Outage(time.time() - (now - began), 0.0, self._cause[:MAX_WHY]), began
        elif is_up and self._down_at is not None:
            (outage, began), self._down_at = self._down_at, None
            self._outages.append(replace(outage, seconds=now - began))


# The journal's.
SPACE: Final = "link"
_DOWN: Final = b"down"
_OUTAGES: Final = b"outages"


class PersistedVerdict:
    """`saved`: what an earlier life left in `SPACE`; `was_down`: as it ended; `outages` that were
    over then; `present`: what the one began with that was not."""

    def __init__(self, journal: Journal, saved: Mapping[bytes, bytes]) -> None:
        self.was_down = _DOWN in saved
        self.outages = _decoded(saved.get(_OUTAGES, b""))
        self.present = next(iter(_decoded(saved.get(_DOWN, b""))), None)
        # As the journal has them.
        self._down = saved.get(_DOWN)
        self._past = saved.get(_OUTAGES)
        self._journal = journal
        journal.rewrite_from(self._state)

    def link(
        self, is_up: bool, present: Outage | None = None, outages: Sequence[Outage] = ()
    ) -> None:
        """The link's verdict is this now, and these are its outages."""
        if is_up == (self._down is None):
            return
        self._down = None if is_up else _encoded([] if present is None else [present])
        records = [Blob(SPACE, _DOWN, self._down)]
        if is_up and outages:
            self._past = _encoded(outages)
            records.append(Blob(SPACE, _OUTAGES, self._past))
        self._journal.send(*records)

    def _state(self) -> Iterator[Blob]:
        for name, value in ((_DOWN, self._down), (_OUTAGES, self._past)):
            if value is not None:
                yield Blob(SPACE, name, value)


def _encoded(outages: Sequence[Outage]) -> bytes:
    rows = [(it.began, round(it.seconds, 3), it.why) for it in outages]
    return json.dumps(rows, separators=(",", ":")).encode()


def _decoded(content: bytes) -> tuple[Outage, ...]:
    """() for what is none, as what an earlier release wrote."""
    try:
        rows = msgspec.json.decode(content, type=list[tuple[float, float, str]])
    except msgspec.DecodeError:
        return ()
    return tuple(Outage(*row) for row in rows[-OUTAGES_KEPT:])
