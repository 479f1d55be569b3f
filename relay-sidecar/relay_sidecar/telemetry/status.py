"""The state of the relay at one moment: the /status document.

Pure: computed in the request that asks, never stored. Has no object and no token, but names of
resources and selectors, and for what tokens are kept.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.runtime.metrics import Metric

# unauthorized: it is reached and answers the relay's own credentials with 401; relayed: upstream is
# another relay, which is cut off from its own.
LinkState = Literal["up", "unauthorized", "relayed", "down"]
LINK_STATES: tuple[LinkState, ...] = ("up", "unauthorized", "relayed", "down")
StreamState = Literal["live", "catching up", "offline", "idle"]


@dataclass(frozen=True, kw_only=True)
class StreamStatus:
    """`state`: live: nothing is missing but for what is on its way; offline: it runs, the link
    does not; idle: it has no readers and is closed. `age` in seconds since upstream last showed
    that nothing is missing, None before the first list. `refusal`: why upstream denies it, or "".
    `source`: from where it comes: "cloud", or the node that leads the pool; "" while it is idle."""

    resource: str
    namespace: str
    label_selector: str
    field_selector: str
    state: StreamState
    refusal: str
    objects: int
    size_bytes: int
    resource_version: int | None
    age: float | None
    watchers: int
    source: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "source": self.source or None,
            "namespace": self.namespace,
            "labelSelector": self.label_selector,
            "fieldSelector": self.field_selector,
            "state": self.state,
            "refusal": self.refusal or None,
            "objects": self.objects,
            "bytes": self.size_bytes,
            "resourceVersion": None
            if self.resource_version is None
            else str(self.resource_version),
            "ageSeconds": _rounded(self.age),
            "watchers": self.watchers,
        }


@dataclass(frozen=True, slots=True)
class Outage:
    """`began`: Unix time; `seconds`: how long it lasted; `why`: what was met with as it began."""

    began: float
    seconds: float
    why: str = ""

    def document(self) -> dict[str, Any]:
        began = rfc3339.stamp_of(self.began, "milliseconds")
        return {"began": began, "seconds": _rounded(self.seconds), "why": self.why or None}


@dataclass(frozen=True, kw_only=True)
class UpstreamLinkStatus:
    """To upstream, `server`. `down_for` in seconds, None while it is up, or not known yet. `proxy`:
    through which it is reached, "" for none. `outages` that are over, the newest last. `via`: the
    neighbour over which it is reached, "" for none; `is_own_up`: whether it is reached without one,
    None: as `is_up`. `cause`: why it is not reached, "" while it is. `was_up`: whether it ever was
    in the life of this process."""

    server: str
    state: LinkState
    down_for: float | None
    proxy: str = ""
    outages: Sequence[Outage] = ()
    via: str = ""
    is_own_up: bool | None = None
    cause: str = ""
    was_up: bool = True

    @property
    def is_up(self) -> bool:
        """The API server answers."""
        return self.state in ("up", "unauthorized")

    @property
    def problem(self) -> str:
        """In words; "" where there is none."""
        match self.state:
            case "up":
                return ""
            case "unauthorized":
                return f"{self.server} refuses the relay's credentials (401)"
            case "relayed":
                return f"{self.server} is a relay that is cut off from its own upstream"
            case "down":
                why = f": {self.cause}" if self.cause else ""
                return f"{self.server} is out of reach{self._through}{why}"

    @property
    def _through(self) -> str:
        return f" through the proxy {self.proxy}" if self.proxy and not self.via else ""

    def document(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "proxy": self.proxy or None,
            "isUp": self.is_up,
            "state": self.state,
            "via": self.via or None,
            "ownIsUp": self.is_up if self.is_own_up is None else self.is_own_up,
            "downSeconds": _rounded(self.down_for),
            "cause": self.cause or None,
            "wasUp": self.was_up,
            "outages": self._past(),
        }

    def history(self, now: float) -> dict[str, Any]:
        """The document of /history; `now`: Unix time."""
        present = None
        if self.down_for is not None:
            present = Outage(now - self.down_for, self.down_for, self.cause).document()
        return {"server": self.server, "outages": self._past(), "present": present}

    def _past(self) -> list[dict[str, Any]]:
        return [outage.document() for outage in self.outages]


@dataclass(frozen=True, kw_only=True)
class JournalStatus:
    """`directory` None: memory. `failure`: why nothing is written at present; `note`: what of an
    earlier life could not be used."""

    directory: str | None
    failure: str | None
    note: str | None


@dataclass(frozen=True, kw_only=True)
class SecretsStatus:
    """`is_kept`: what is watched by name now, and each answer to a TokenRequest, outlasts a
    restart. `failure`: why not, although --keep-secrets is set, or why what was kept before is
    unknown."""

    is_kept: bool = False
    failure: str | None = None

    def document(self) -> dict[str, Any]:
        return {"isKept": self.is_kept, "failure": self.failure}


@dataclass(frozen=True, kw_only=True)
class NamedObject:
    """That the relay keeps because it was read by its name."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, kw_only=True)
class RestartStatus:
    """What a relay that starts anew now would have, beside its streams. `key_failure`: why it would
    not unseal what this one has sealed, with the file of --keep-secrets as it is. `rooms`: rows of
    the optional rooms."""

    key_failure: str | None = None
    rooms: Mapping[str, Any] = field(default_factory=dict)
    objects: Sequence[NamedObject] = ()

    def document(self) -> dict[str, Any]:
        return {
            "keyFailure": self.key_failure,
            **self.rooms,
            "objects": [asdict(it) for it in self.objects],
        }


@dataclass(frozen=True, kw_only=True)
class MemoryBudget:
    """What is kept of objects, in bytes, and its limits; `evicted_*` were deleted for want of room.
    `running` streams follow upstream."""

    used: int = 0
    limit: int = 0
    seen_used: int = 0
    seen_limit: int = 0
    evicted_streams: int = 0
    evicted_objects: int = 0
    running: int = 0
    max_streams: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "usedBytes": self.used,
            "limitBytes": self.limit,
            "seenBytes": self.seen_used,
            "seenLimitBytes": self.seen_limit,
            "evictedStreams": self.evicted_streams,
            "evictedObjects": self.evicted_objects,
            "runningStreams": self.running,
            "maxStreams": self.max_streams,
        }


@dataclass(frozen=True, kw_only=True)
class RelayStatus:
    """`lack`: what is missing before requests can be answered, "" when nothing is."""

    version: str
    uptime: float
    lack: str
    access: Literal["own", "caller"]
    link: UpstreamLinkStatus
    journal: JournalStatus
    streams: Sequence[StreamStatus]
    watchers: int
    max_watchers: int
    max_objects: int
    budget: MemoryBudget = MemoryBudget()
    secrets: SecretsStatus = SecretsStatus()
    restart: RestartStatus = RestartStatus()
    # Rows and metrics of the optional rooms.
    rooms: Mapping[str, Any] = field(default_factory=dict)
    measured: Sequence[Metric] = ()
    # As `listener_metrics.figures` has them.
    listeners: Sequence[Mapping[str, str | int]] = ()

    @property
    def objects(self) -> int:
        return sum(stream.objects for stream in self.streams)

    def document(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "uptimeSeconds": _rounded(self.uptime),
            "isReady": not self.lack,
            "lack": self.lack or None,
            "access": self.access,
            "link": self.link.document(),
            "journal": asdict(self.journal),
            "secrets": self.secrets.document(),
            "restart": self.restart.document(),
            **self.rooms,
            "objects": self.objects,
            "maxObjects": self.max_objects,
            "memory": self.budget.document(),
            "listeners": list(self.listeners),
            "watchers": self.watchers,
            "maxWatchers": self.max_watchers,
            "streams": [stream.document() for stream in self.streams],
        }

    def json(self) -> bytes:
        return json.dumps(self.document(), separators=(",", ":")).encode()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
