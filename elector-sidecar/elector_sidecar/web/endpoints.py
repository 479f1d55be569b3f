"""The HTTP answers (contract, section 3).

Guarantee (P1, P2): whatever depends on leadership is computed from a clock that is read after the
request was parsed and after the last await of the handler. Bad input is a 400 that names it. Long
polls and streams never take all connections of a listener, and none of another listener's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from json import dumps
from typing import Protocol

from edge_sidecars.runtime.cli.values import BadInput, whole
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.formats.rfc1123 import is_subdomain
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import (
    READS,
    Route,
    json,
    metrics,
    options,
    query,
    served,
    text,
)
from edge_sidecars.runtime.web.page.asked import Page
from elector_sidecar.core.handover import SUCCESSION
from elector_sidecar.core.lease import pod_name
from elector_sidecar.elector import Elector
from elector_sidecar.metrics import measure
from elector_sidecar.status import ElectorStatus
from elector_sidecar.web.document_stream import follow
from elector_sidecar.web.page_document import page_document
from elector_sidecar.web.wait_limit import (
    MAX_WAIT,
    RENEWAL_POLL,
    WaitLimit,
    full,
    named_seconds,
    truth,
    wait_seconds,
)

VALID_UNTIL_HEADER = "X-Leader-Valid-Until"
FENCING_TOKEN_HEADER = "X-Leader-Fencing-Token"
MIN_COOLDOWN = 1.0
DEFAULT_COOLDOWN = 10.0

# Answered by an elector with shards only.
SHARD_PATHS = frozenset({"/shards", "/owns"})
PROBE_PATHS = SHARD_PATHS | {"/readyz", "/eligible", "/livez", "/leader", "/history", "/metrics"}


@dataclass(frozen=True)
class ReadyCondition:
    """What /readyz is asked for, beyond leading: seconds, and the term's fencing token."""

    min_remaining: float = 0.0
    min_age: float = 0.0
    wait: float = 0.0
    token: int | None = None


class MoreEndpoints(Protocol):
    """What a kind of election answers beside what each does."""

    def route(self, path: str) -> Route | None: ...

    def shown(self, now: float) -> bytes:
        """For people, as JSON: no main is promised anything of it."""


class MakeMore(Protocol):
    def __call__(
        self,
        elector: Elector,
        limit: Callable[[web.BaseRequest], WaitLimit],
        /,
        *,
        promises: bool,
    ) -> MoreEndpoints: ...


class ElectorEndpoints:
    """The handlers of one elector on one listener; `handle` serves the full API, `handle_probe`
    the safe part. `strangers`: for clients of other machines, where the main asks on the same
    listener. `page_streams`: so many may follow the page. `promises`: whether a hand-over waits
    for the validity that these answers name: only the main's listener knows that it is the main
    who asks (S6)."""

    def __init__(
        self,
        elector: Elector,
        waiting: WaitLimit,
        *,
        strangers: WaitLimit | None = None,
        promises: bool = True,
        more: MakeMore | None = None,
        page_streams: int = 0,
    ) -> None:
        self._elector = elector
        self._promises = promises
        self._waiting = waiting
        self._strangers = strangers
        self._routes: dict[str, Route] = {
            "/": ("GET", self._name),
            "/leader": ("GET", self._leader),
            "/history": ("GET", self._history),
            "/readyz": ("GET", self._readyz),
            "/eligible": ("GET", self._eligible),
            "/livez": ("GET", self._livez),
            "/healthz": ("GET", self._livez),
            "/metrics": ("GET", self._metrics),
            "/resign": ("POST", self._resign),
        }
        self._more = None if more is None else more(elector, self._limit, promises=promises)
        self._page = Page("elector", self._shown, streams=page_streams)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._page.has(request):
            return await served(request, ("GET", self._page.answer))
        return await self._dispatch(request, self._route(request.path))

    async def handle_probe(self, request: web.BaseRequest) -> web.StreamResponse:
        route = self._route(request.path) if request.path in PROBE_PATHS else None
        return await self._dispatch(request, route)

    async def handle_contrib(self, request: web.BaseRequest) -> web.StreamResponse:
        """Contrib's listener: any path that is not ours, any method, is the leader's name.

        It is often open to the pod's network, from where no client may make the leader resign.
        """
        if request.path in SHARD_PATHS or request.path.startswith("/shards/"):
            return text(404, "shards are answered on --listen only")
        route = self._routes.get(request.path)
        if route is None or request.path == "/":
            name = await self._name(request)
            return options(name, ", ".join(READS)) if request.method == "OPTIONS" else name
        if request.path == "/resign" and not _is_local(request):
            return text(403, "/resign is for this machine only: ask 127.0.0.1")
        return await self._dispatch(request, route)

    def _route(self, path: str) -> Route | None:
        found = self._routes.get(path)
        return self._more.route(path) if found is None and self._more is not None else found

    async def _dispatch(self, request: web.BaseRequest, route: Route | None) -> web.StreamResponse:
        if route is not None:
            return await served(request, route)
        if request.path in SHARD_PATHS:
            return text(404, "this elector has no shards: start it with --shards N")
        return text(404, f"unknown path {request.path!r}")

    async def _name(self, request: web.BaseRequest) -> web.StreamResponse:
        self._elector.promised.asked(request)
        status = self._elector.status(boottime())
        self._elector.note_told(status)
        holder = status.holder
        # Contrib's bytes: json.Marshal of its only field, no newline.
        return json(b'{"name":%s}' % _go_json(pod_name(holder)))

    async def _leader(self, request: web.BaseRequest) -> web.StreamResponse:
        given = query(request, "watch", "promise")
        self._note_client(request, given)
        if truth("watch", given.get("watch", "false")) and request.method == "GET":
            limit = self._limit(request)
            with limit.place() as is_there:
                if not is_there:
                    return full(limit)
                return await follow(self._elector, request, self._leader_document)
        return json(self._leader_document(boottime()))

    def _note_client(self, request: web.BaseRequest, given: Mapping[str, str]) -> None:
        """One that may act on the answer, unless it says that it only looks."""
        if truth("promise", given.get("promise", "true")) and self._promises:
            self._elector.promised.asked(request)

    def _leader_document(self, now: float) -> bytes:
        status = self._elector.status(now)
        self._tell(status)
        return status.json()

    def _shown(self) -> bytes:
        shards = b"null" if self._more is None else self._more.shown(boottime())
        return page_document(self._elector, shards)

    def _tell(self, status: ElectorStatus) -> None:
        # Kubelet's 200 brings a main its traffic, whatever the listener promises.
        self._elector.note_told(status)
        if self._promises:
            self._elector.tell(status)

    async def _history(self, request: web.BaseRequest) -> web.StreamResponse:
        query(request)
        terms = self._elector.history
        if terms is None:
            return text(404, "with --shards no history is kept")
        config = self._elector.config
        lease = {"namespace": config.namespace, "name": config.lease}
        document = {"lease": lease, "terms": [it.document() for it in terms]}
        return json(dumps(document, separators=(",", ":")).encode())

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        given = query(request, "min_remaining", "min_age", "wait", "token", "promise")
        condition = _ready_condition(given)
        self._note_client(request, given)
        if not condition.wait:
            return await self._ready(condition)
        limit = self._limit(request)
        with limit.place() as is_there:
            return await self._ready(condition) if is_there else full(limit)

    async def _ready(self, condition: ReadyCondition) -> web.StreamResponse:
        deadline = boottime() + condition.wait
        while True:
            now = boottime()
            status = self._elector.status(now)
            unmet = _unmet(
                condition, status.remaining, status.term_seconds, status.view.fencing_token
            )
            if unmet is None and status.is_leader:
                self._tell(status)
                headers = {
                    VALID_UNTIL_HEADER: f"{status.view.valid_until:.6f}",
                    FENCING_TOKEN_HEADER: str(status.view.fencing_token),
                }
                return text(200, "ok", headers)
            if now >= deadline:
                return text(503, str(unmet) if status.is_leader else f"not leader: {status.reason}")
            await self._elector.changed(min(deadline - now, _poll_after(condition, status)))

    def _limit(self, request: web.BaseRequest) -> WaitLimit:
        if self._strangers is None or _is_local(request):
            return self._waiting
        return self._strangers

    async def _eligible(self, request: web.BaseRequest) -> web.StreamResponse:
        status = self._elector.status(boottime())
        if status.is_eligible:
            return text(200, "ok")
        return text(503, f"not eligible: {status.reason}")

    async def _livez(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._elector.is_wedged(boottime()):
            return text(503, "the election loop is overdue by more than a lease duration")
        return text(200, "ok")

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        return metrics(measure(self._elector, boottime()))

    async def _resign(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = query(request, "cooldown", "to")
        given, successor = asked.get("cooldown"), asked.get("to", "")
        default = SUCCESSION if successor else DEFAULT_COOLDOWN
        cooldown = default if given is None else named_seconds("cooldown", given)
        if cooldown < MIN_COOLDOWN:
            raise BadInput(f"cooldown={given}: at least {MIN_COOLDOWN:g}s")
        if successor and not self._elector.status(boottime()).is_leader:
            successor = ""  # refused for that, below
        if successor and (why_not := await self._why_no_successor(successor)):
            return text(409, why_not)
        match await self._elector.resign(cooldown, successor=successor):
            case None:
                return text(409, f"not leader: {self._elector.status(boottime()).reason}")
            case True:
                return text(200, "released")
            case _:
                return text(503, "stopped leading; whether the Lease was released is unknown")

    async def _why_no_successor(self, pod: str) -> str:
        if not is_subdomain(pod):
            raise BadInput(f"to={pod!r:.80} is not a pod's name")
        if self._elector.config.shards is not None:
            return "to= is of a single leader: shards are moved by their own balance"
        if pod == pod_name(self._elector.identity):
            return f"{pod} is this pod itself"
        return await self._elector.machine.client.why_no_candidate(pod)


def _unmet(
    condition: ReadyCondition, remaining: float, age: float | None, token: int | None
) -> str | None:
    """What a leader lacks of the condition; None if nothing."""
    if condition.token is not None and condition.token != token:
        return f"another term: the fencing token is {token}, not {condition.token}"
    if remaining < condition.min_remaining:
        return f"only {remaining:.3f}s of validity left, {condition.min_remaining:g}s asked for"
    if age is None or age < condition.min_age:
        return f"the term is {age or 0.0:.3f}s old, {condition.min_age:g}s asked for"
    return None


def _poll_after(condition: ReadyCondition, status: ElectorStatus) -> float:
    """How long only a change of the state can meet the condition."""
    age = status.term_seconds
    if not status.is_leader or age is None:
        return MAX_WAIT
    if age < condition.min_age:
        return condition.min_age - age
    # A renewal is no change of state, but prolongs the validity.
    return RENEWAL_POLL


def _ready_condition(given: Mapping[str, str]) -> ReadyCondition:
    token = given.get("token")
    try:
        fencing_token = None if token is None else whole(token)
    except BadInput as error:
        raise BadInput(f"token: {error}, as fencingToken of /leader is") from error
    return ReadyCondition(
        min_remaining=named_seconds("min_remaining", given.get("min_remaining", "0")),
        min_age=named_seconds("min_age", given.get("min_age", "0")),
        wait=wait_seconds(given.get("wait", "0")),
        token=fencing_token,
    )


def _is_local(request: web.BaseRequest) -> bool:
    """Whether the client is on this machine: loopback, or a unix socket."""
    if not request.remote:
        return True
    try:
        return ip_address(request.remote.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _go_json(text: str) -> bytes:
    """A JSON string as Go's encoding/json writes it: escaped for HTML and JavaScript."""
    quoted = dumps(text, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        quoted = quoted.replace(char, f"\\u{ord(char):04x}")
    return quoted.encode()
