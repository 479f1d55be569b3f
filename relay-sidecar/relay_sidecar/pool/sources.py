"""The last line of this node's pool-sidecar, and where a pool-scoped stream comes from. Pure.

A line of /sources holds for the seconds that it names, at most `MAX_VALID`; then it is as if there
were no pool. A hub leads and its stream is live, or was within `LIVE_GRACE` seconds; one that leads
no more is a hub for `FORMER` seconds, so that an orderly change costs the link nothing.

    at each (re)open: hub, if one is live and this one may be asked ──► the API server

Guarantees: A change of source keeps the stream's version. A hub that refused, broke off, garbled,
sent older versions or fell silent is avoided, longer each time, and one that lied for an hour. A
stream goes from a hub to the API server after a random delay, since all followers lose a hub in one
moment. What is no line of /sources raises ValueError and changes nothing.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from edge_sidecars.runtime.backoff import exponential
from relay_sidecar.core.verdicts import Verdicts

# Seconds; three of its lines (pool.md 6).
MAX_VALID: Final = 6.0
# Of a Node's name: a DNS subdomain.
MAX_NAME: Final = 253
# Members of a pool, and streams of each.
MAX_PEERS: Final = 64
MAX_STREAMS: Final = 16
# Seconds; a watch is proved within less than one, and the relay is asked each second.
LIVE_GRACE: Final = 3.0
# Seconds (pool.md 4).
FORMER: Final = 5.0
# Digits of a resourceVersion.
MAX_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class PeerStreams:
    """Of one peer's relay, by resource: the cursor of each stream; from where on a watch may begin;
    which ones are live, and fed by the API server."""

    cursors: Mapping[str, int] = field(default_factory=dict)
    windows: Mapping[str, int] = field(default_factory=dict)
    live: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SourcesLine:
    """`via`: the neighbour over which upstream is reached, "" for the own link or none; `valid_for`
    in seconds. `hub`: the peer that leads, "" for none; `is_candidate`: this node may. `node`: this
    one, "" of a pool-sidecar that does not say; `own`: what it shows to peers."""

    via: str
    valid_for: float
    hub: str = ""
    leads: bool = False
    is_candidate: bool = False
    peers: Mapping[str, PeerStreams] = field(default_factory=dict)
    verdicts: Verdicts | None = None
    node: str = ""
    own: PeerStreams | None = None

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Raises ValueError."""
        try:
            found = json.loads(line)
        except RecursionError as error:
            raise ValueError("too deep") from error
        match found:
            case {
                "detour": bool(is_lent),
                "via": str(via),
                "validSeconds": int() | float() as seconds,
            } if 0 < seconds < math.inf and bool(via) is is_lent and len(via) <= MAX_NAME:
                return cls(
                    via,
                    float(min(seconds, MAX_VALID)),
                    _hub(found.get("hub")),
                    found.get("role") == "Leader",
                    found.get("candidate") is True,
                    _peers(found.get("peers") or []),
                    verdicts=Verdicts.read(found),
                    **_own(found.get("own")),
                )
        raise ValueError("it lacks detour, via or validSeconds, or they do not fit")


class PoolSources:
    """As of the latest line. `reads_own`: this relay is not the one of its node that peers read,
    and may read from that."""

    def __init__(self, *, reads_own: bool = False) -> None:
        self._reads_own = reads_own
        self._peers: dict[str, PeerStreams] = {}
        self._line = SourcesLine("", MAX_VALID)
        self.valid_until = -math.inf
        # When the stream of a peer was live last, and when a peer led last.
        self._live_at: dict[tuple[str, str], float] = {}
        self._led_at: dict[str, float] = {}
        # Hubs that lied: until when they feed nothing.
        self._shunned: dict[str, float] = {}
        # Called after each line.
        self.on_line: list[Callable[[], None]] = []

    def shun(self, node: str, until: float) -> None:
        """It is no hub here until then."""
        self._shunned[node] = until

    def heard(self, line: SourcesLine, now: float) -> None:
        self._line, self.valid_until = line, now + line.valid_for
        self._peers = dict(line.peers)
        if self._reads_own and line.own is not None:
            self._peers[line.node] = line.own
        for node, peer in self._peers.items():
            self._live_at |= {(node, resource): now for resource in peer.live}
        if self._leader:
            self._led_at[self._leader] = now
        oldest = now - max(LIVE_GRACE, FORMER)
        self._live_at = {key: at for key, at in self._live_at.items() if at >= oldest}
        self._led_at = {node: at for node, at in self._led_at.items() if at >= oldest}
        for observer in self.on_line:
            observer()

    def via(self, now: float) -> str:
        """The neighbour that lends its link, "" where none does."""
        return self._line.via if self._is_valid(now) else ""

    def verdicts(self, now: float) -> Verdicts | None:
        """None where none are known."""
        return self._line.verdicts if self._is_valid(now) else None

    def is_candidate(self, now: float) -> bool:
        """Whether this node may lead."""
        return self._is_valid(now) and self._line.is_candidate

    def leads(self, now: float) -> bool:
        """Whether this node is the hub."""
        return self._is_valid(now) and self._line.leads

    def hubs(self, resource: str, now: float) -> list[str]:
        """The members from which a stream of that resource may come, the best first."""
        if not self._is_valid(now):
            return []
        if self._line.leads:
            return [it for it in (self._leader,) if self._is_hub(it, resource, now)]
        former = sorted(self._led_at, key=lambda it: -self._led_at[it])
        known = (self._line.hub, *(it for it in former if it != self._line.hub))
        return [it for it in known if self._is_hub(it, resource, now)]

    def window(self, node: str, resource: str) -> int:
        """The oldest version from which a watch of that peer's stream may begin, by its word."""
        peer = self._peers.get(node)
        return 0 if peer is None else peer.windows.get(resource, 0)

    def _is_hub(self, node: str, resource: str, now: float) -> bool:
        peer = self._peers.get(node)
        if peer is None or now < self._shunned.get(node, -math.inf):
            return False
        if node == self._leader:
            return now - self._live_at.get((node, resource), -math.inf) <= LIVE_GRACE
        return resource in peer.live and now - self._led_at[node] <= FORMER

    @property
    def _leader(self) -> str:
        """Who leads, as far as this relay may read from it; "" for none."""
        if not self._line.leads:
            return self._line.hub
        return self._line.node if self._reads_own else ""

    def _is_valid(self, now: float) -> bool:
        return now < self.valid_until


def _hub(found: Any) -> str:
    match found:
        case None:
            return ""
        case {"node": str(node)} if 0 < len(node) <= MAX_NAME:
            return node
    raise ValueError("its hub is none")


def _own(found: Any) -> dict[str, Any]:
    """The fields of a `SourcesLine` about this node; none of a pool-sidecar without them."""
    if found is None:
        return {}
    node, own = _peer(found)
    return {"node": node, "own": own}


def _peers(found: Any) -> dict[str, PeerStreams]:
    if not isinstance(found, list) or len(found) > MAX_PEERS:
        raise ValueError("its peers are none")
    return dict(map(_peer, found))


def _peer(found: Any) -> tuple[str, PeerStreams]:
    match found:
        case {"node": str(node)} if 0 < len(node) <= MAX_NAME:
            cursors, live = _versions(found.get("cursors")), found.get("live") or []
            if isinstance(live, list) and all(isinstance(it, str) for it in live):
                windows = _versions(found.get("windows"))
                return node, PeerStreams(cursors, windows, frozenset(live) & cursors.keys())
    raise ValueError("a peer without a node, or with streams that are none")


def _versions(found: Any) -> dict[str, int]:
    """By resource."""
    versions = found or {}
    if not isinstance(versions, dict) or len(versions) > MAX_STREAMS:
        raise ValueError("a peer with streams that are none")
    return {resource: _version(version) for resource, version in versions.items()}


def _version(found: Any) -> int:
    is_number = isinstance(found, str) and found.isascii() and found.isdecimal()
    if not is_number or len(found) > MAX_DIGITS:
        raise ValueError("a version that is none")
    return int(found)


# Seconds for which a hub is left after its first failure, and at most.
FIRST_LEFT: Final = 10.0
LONGEST_LEFT: Final = 300.0
# Seconds after which a stream was good.
GOOD: Final = 60.0
# Seconds at most from a lost hub to the API server (pool.md 4).
SPREAD: Final = 2.0
# Seconds for which a hub is left whose window begins after the stream's version: the API server
# sends a bookmark within 75 s (`reflection`), and then the version is a later one.
EXPIRED_LEFT: Final = 80.0
# Seconds; a hub passes those bookmarks on. Less than `reflection` waits for an API server.
SILENT: Final = 87.0
# In place of a hub's name.
API_SERVER: Final = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """`hub`: a peer's name, or `API_SERVER`; to be asked in `delay` seconds."""

    hub: str
    delay: float = 0.0


class SourceChoice:
    """Of one stream. `hubs` are the peers that may feed it now, the best first."""

    def __init__(self) -> None:
        self.hub = API_SERVER
        self._began_at = self._heard_at = -math.inf
        self._left_until: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        # It came from a hub last, and has not been asked of the API server since.
        self._was_fed = False

    def open(self, hubs: Sequence[str], now: float, chance: float, *, is_lost: bool) -> Opening:
        """What to ask next; `chance` is from [0, 1). `is_lost`: where there is no hub, others have
        lost it in the same moment, and the API server is within reach."""
        hub = self._usable(hubs, now)
        if hub == API_SERVER and self._was_fed and is_lost:
            self.hub, self._was_fed = API_SERVER, False
            return Opening(API_SERVER, chance * SPREAD)
        self.hub, self._was_fed = hub, hub != API_SERVER
        self._began_at = self._heard_at = now
        return Opening(hub)

    def may_ask(self, hubs: Sequence[str], now: float, *, is_up: bool) -> bool:
        return is_up or self._usable(hubs, now) != API_SERVER

    def is_wrong(self, hubs: Sequence[str], now: float) -> bool:
        """Whether the request that runs is to end: another source comes first, or the hub is none
        any more, or has been silent for too long."""
        if self.hub != API_SERVER and now - self._heard_at > SILENT:
            self.failed(now)
        return self._usable(hubs, now) != self.hub

    def is_fed(self, hubs: Sequence[str], now: float) -> bool:
        """Whether a hub feeds it, and is one still."""
        return self.hub != API_SERVER and self.hub in hubs

    def heard(self, now: float) -> None:
        """Something came from the hub."""
        self._heard_at = now

    def failed(self, now: float, *, is_expired: bool = False) -> None:
        """What the hub did is no answer, or cannot be believed; `is_expired`: it answered that its
        window begins after the stream's version."""
        if self.hub == API_SERVER:
            return
        failures = 0 if now - self._began_at >= GOOD else self._failures.get(self.hub, 0)
        left = exponential(failures, first=FIRST_LEFT, longest=LONGEST_LEFT)
        if is_expired:
            left = max(left, EXPIRED_LEFT)
        else:
            self._failures[self.hub] = failures + 1
        self._left_until = {it: at for it, at in self._left_until.items() if now < at}
        self._left_until[self.hub] = now + left

    def _usable(self, hubs: Sequence[str], now: float) -> str:
        return next((it for it in hubs if now >= self._left_until.get(it, -math.inf)), API_SERVER)
