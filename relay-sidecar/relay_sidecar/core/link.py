"""Is upstream reachable? The verdict, when the next probe is due, and what it asks.

Knows no sockets. Evidence is what a probe or a request met with. Guarantees: Up from the first
answer on. Down only after two failures in a row of which the last was a probe, so that one broken
connection does not make an outage. Evidence that is too old (the process was suspended) proves
nothing. Another relay that is offline itself is no sign of the API server, but can be asked
(`is_relayed`). A probe asks `OPTIONS *` (RFC 9110, 9.3.7), which Go's net/http answers in 75 bytes.
Since a gateway does so too, that counts only from a server that has proved to be the API server by
its certificate, and the API server itself is asked in doubt and each `BRIEF_IN_A_ROW` probes.

    unknown ──► up ◄──► suspect (up, a probe is due at once) ──► down ──► up
       └──────────────────────────────────────────────────────► down
"""

import math
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from edge_sidecars.apimachinery.status import may_be_own_word
from edge_sidecars.runtime.formats.media_type import is_document, is_page
from relay_sidecar.core.caching import AGE

# A suspended process hears nothing; a busy one is late by less than this many probes.
STALE_PROBES: Final = 5
# Seconds; a probe that is so late to be started or ended: this process stood still meanwhile.
LATE: Final = 2.0
# Seconds between two probes at most, where upstream is not known to be there, or a request waits.
ATTENTIVE_INTERVAL: Final = 1.0
# The same in the first moments of an outage, where requests wait for its end.
HURRIED_INTERVAL: Final = 0.1
# One failure is chance, the second in a row is an outage.
CONVINCING_FAILURES: Final = 2
# The deadline of a probe in round trips: an answer that is lost once and sent again, and one that
# waits behind other traffic of the link, still count (as TCP: RFC 6298, four deviations).
ROUND_TRIPS: Final = 4
# How much one round trip counts that is longer or shorter than those before: a link that has become
# slow is believed sooner than one answer that was quick.
RISE, FALL = 0.5, 0.25
# HTTP: what a gateway says when there is no API server behind it.
NOBODY_THERE: Final = frozenset({502, 503, 504})
# What upstream says where it is there and fails: the webhook of a conversion, or etcd behind it.
FAILING: Final = NOBODY_THERE | {500}
# To a probe, of a portal or a gateway: kube-apiserver redirects none, and has its path.
NO_ANSWERS: Final = frozenset({301, 302, 303, 307, 308, 404})
UNAUTHORIZED: Final = 401
# In plain text too, where there are too many of all clients (pkg/server/filters/maxinflight.go).
TOO_MANY_REQUESTS: Final = 429
# RFC 9110, 10.2.4: Server, which kube-apiserver does not send; of a relay that cannot pass a
# request on. What it passes on is as upstream sent it.
SERVER: Final = "relay-sidecar"


class LinkEvidence(Enum):
    """What a probe or a request met with."""

    ANSWERED = auto()
    """Any byte from an API server."""
    REFUSED = auto()
    """Refused, reset, no route, no name, no TLS; or only a gateway answered (502, 503, 504)."""
    TIMED_OUT = auto()
    RELAYED = auto()
    """Another relay answered, which is cut off from its own upstream."""
    FULL = auto()
    """A neighbour lends no more connections than it does. It lends while its own link is up: that
    is no answer of the API server, but the verdict stays what it is."""
    SCARCE = auto()
    """This process lacked a descriptor, memory or disk for it: that says nothing about the link."""


def is_of_gateway(status: int, headers: Mapping[str, str]) -> bool:
    """Whether this is what a gateway answers when there is no API server, or a portal before it."""
    return status in NOBODY_THERE or is_page(headers.get("Content-Type", ""))


def is_of_api_server(status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer shows that the API server is there. What a gateway answers when there is no
    API server is no sign of it. Nor is it one of its absence: an API server answers the same when
    it cannot do something now, or (404, in plain text) does not serve a resource. Another relay
    whose answer has an age has not reached it."""
    is_refusal = 400 <= status < 500 and status != TOO_MANY_REQUESTS
    if is_refusal and not is_document(headers.get("Content-Type", "")):
        return False
    return not is_of_gateway(status, headers) and AGE not in headers


def is_failure(
    status: int, headers: Mapping[str, str], content: bytes, *, is_followed: bool = False
) -> bool:
    """Whether an answer to a read is none: what is kept is better. `is_followed`: a stream brings
    it, which finds out whose word a 404 in plain text is."""
    content_type = headers.get("Content-Type", "")
    if is_followed and status == 404 and not is_document(content_type):
        return True
    return status in FAILING or not may_be_own_word(status, content_type, content)


def failure_evidence(*, is_late: bool, is_full: bool = False) -> LinkEvidence:
    """What a request without an answer met with; `is_late`: its time ran out; `is_full`: there was
    no connection left for it."""
    if is_full:
        return LinkEvidence.FULL
    return LinkEvidence.TIMED_OUT if is_late else LinkEvidence.REFUSED


class UpstreamLink:
    """Times in seconds. `probe_timeout` is the deadline of a probe on a quick link; it follows the
    round trip that is seen, up to `max_probe_timeout`. A cut is noticed within the interval and two
    deadlines. While it lasts, and where a request waits for its answer, probes are no further apart
    than ATTENTIVE_INTERVAL. `was_down`: the process before this one ended in an outage, which
    counts as a first failure."""

    def __init__(
        self,
        *,
        probe_interval: float,
        probe_timeout: float,
        max_probe_timeout: float = 0.0,
        was_down: bool = False,
    ) -> None:
        self._interval = probe_interval
        self._attentive_interval = min(probe_interval, ATTENTIVE_INTERVAL)
        self._min_probe_timeout = probe_timeout
        self.max_probe_timeout = max(probe_timeout, max_probe_timeout)
        # Seconds from a request to its answer, smoothed; None before the first one.
        self._round_trip: float | None = None
        self._set_deadline()
        self._is_up = False
        self._heard_at = -math.inf
        # When a probe last found that a neighbour lends, and has no connection left for it.
        self._full_at = -math.inf
        # The same before a standstill, until a probe since has been answered.
        self._heard_before = math.inf
        self._has_stood_still = False
        self._probe_at = self._probing_at = -math.inf
        self.was_down = was_down
        self._failures = int(was_down)
        self._failing_since = math.inf
        # When a probe last met a relay that is cut off itself, and how many have not since.
        self._relayed_at = -math.inf
        self._unrelayed = 0
        self.is_known = False
        self._probed_since: float | None = None

    def _set_deadline(self) -> None:
        """By the round trip that is seen. Each request of a client asks for the verdict."""
        seen = ROUND_TRIPS * (self._round_trip or 0.0)
        # The present deadline of a probe, in seconds.
        self.probe_timeout = min(max(seen, self._min_probe_timeout), self.max_probe_timeout)
        # Seconds for which a sign of life counts.
        self._lifetime = STALE_PROBES * (self._interval + self.probe_timeout)

    @property
    def round_trip(self) -> float:
        """Seconds, smoothed; 0 before the first answer."""
        return self._round_trip or 0.0

    def round_trip_took(self, seconds: float) -> None:
        """An answer came so long after its request."""
        before = self._round_trip
        if before is None:
            self._round_trip = seconds
        else:
            share = RISE if seconds > before else FALL
            self._round_trip = before + share * (seconds - before)
        self._set_deadline()

    def is_behind(self, now: float) -> bool:
        """The probe should have acted long ago: the process stood still (it was suspended, or
        starved), and what came meanwhile is unread."""
        if self._probed_since is not None:
            return now > self._probed_since + self.probe_timeout + LATE
        return math.isfinite(self._probe_at) and now > self._probe_at + LATE

    def looked_back(self, now: float) -> None:
        """All that depend on it know that the process stood still."""
        self._heard_before = self.heard_at
        self._has_stood_still = True
        if self._probed_since is None:
            self._probe_at = now
        else:
            self._probed_since = now

    def is_up(self, now: float) -> bool:
        return self._is_up and now - max(self._heard_at, self._full_at) <= self._lifetime

    def is_relayed(self, now: float) -> bool:
        """The API server cannot be reached, but a relay before it can be asked for its cache."""
        return self.is_known and not self.is_up(now) and self._hears_relay(now)

    def down_since(self, now: float) -> float | None:
        """When the first sign of the outage came; None while up or not known yet."""
        if not self.is_known or self.is_up(now):
            return None
        return min(self._failing_since, now)

    def is_in_doubt(self, now: float) -> bool:
        """Upstream is not known to be there, or the latest sign is that it is not."""
        return not self.is_up(now) or self._failures > 0

    @property
    def failing_since(self) -> float:
        """When the first failure came behind which there was no answer; after all time where there
        is none."""
        return self._failing_since

    @property
    def heard_at(self) -> float:
        """When upstream is known to have answered last; before all time where it has not yet.
        What is read after a standstill may have come before it: then only a probe counts that was
        started since."""
        return min(self._heard_at, self._heard_before)

    @property
    def wake_at(self) -> float:
        """When the next probe is to be started; one at a time."""
        return self._probe_at

    def probing(self, now: float) -> None:
        """A probe starts now."""
        is_well = not self.is_in_doubt(now)
        self._probe_at = now + (self._interval if is_well else self._attentive_interval)
        self._probing_at = self._probed_since = now
        self._has_stood_still = False

    def probed(self, outcome: LinkEvidence, now: float) -> None:
        """A probe ended."""
        self._probed_since = None
        if outcome is LinkEvidence.ANSWERED and not self._has_stood_still:
            self._heard_before = math.inf
        self._judge(outcome, now, is_probe=True)

    def probed_late(self, outcome: LinkEvidence, now: float) -> None:
        """A probe ended after its deadline, which counted as a failure."""
        if outcome in (LinkEvidence.ANSWERED, LinkEvidence.RELAYED):
            self._judge(outcome, now, is_probe=True)

    def met(self, outcome: LinkEvidence, now: float) -> None:
        """Any request met with this; an event that arrives on a watch is an answer too. What a
        relay that is offline answers from its cache proves nothing."""
        if outcome is not LinkEvidence.ANSWERED or not self._hears_relay(now):
            self._judge(outcome, now, is_probe=False)

    def way_changed(self, now: float, *, is_lost: bool) -> None:
        """Upstream is reached another way from now on: over a neighbour, or again without one.
        `is_lost`: that way is known to be down."""
        self._probe_at = now
        if is_lost:
            self._is_up, self.is_known = False, True
            self._failing_since = min(self._failing_since, now)
            self._failures += 1

    def waits(self, now: float) -> None:
        """A request has been without an answer for a while: that is no evidence, but a reason to
        look, unless there was a sign of life or a look just now."""
        since = max(self._heard_at, self._probing_at)
        self._probe_at = min(self._probe_at, max(now, since + self._attentive_interval))

    def hurries(self, now: float) -> None:
        """Requests wait to learn whether it is back."""
        since = max(self._heard_at, self._probing_at)
        self._probe_at = min(self._probe_at, max(now, since + HURRIED_INTERVAL))

    def _hears_relay(self, now: float) -> bool:
        return now - self._relayed_at <= self._lifetime

    def _judge(self, outcome: LinkEvidence, now: float, *, is_probe: bool) -> None:
        if outcome is LinkEvidence.SCARCE:
            return
        if outcome is LinkEvidence.FULL:
            if is_probe:
                self._full_at = now
            return
        if outcome is LinkEvidence.RELAYED:
            self._relayed_at, self._unrelayed = now, 0
        elif is_probe:
            self._unrelayed += 1
            if outcome is LinkEvidence.ANSWERED or self._unrelayed >= CONVINCING_FAILURES:
                self._relayed_at = -math.inf
        if outcome is LinkEvidence.ANSWERED:
            self._is_up = self.is_known = True
            self._heard_at = now
            self._failures = 0
            self._failing_since = math.inf
            self._probe_at = max(self._probe_at, now + self._interval)
            return
        self._failing_since = min(self._failing_since, now)
        self._failures += 1
        if is_probe and self._failures >= CONVINCING_FAILURES:
            self._is_up = False
            self.is_known = True
        elif self._is_up or not self.is_known:
            self._probe_at = now


BRIEF_IN_A_ROW: Final = 60
# What clients in the cluster verify it by; no gateway has it in a certificate of its own.
_API_SERVER: Final = "kubernetes.default.svc"
# RFC 9110, 7.6.3 and 10.2.4: kube-apiserver names itself in neither.
_OF_GATEWAYS: Final = ("Server", "Via")


class ProbeReply(Struct, frozen=True):
    """To a probe; `peer_names` are the DNS names of the certificate, as far as it is verified."""

    status: int
    headers: Mapping[str, str]
    peer_names: Collection[str]
    body: bytes = b""

    @property
    def is_of_api_server(self) -> bool:
        """Not of a gateway."""
        is_named = any(name in self.headers for name in _OF_GATEWAYS)
        return _API_SERVER in self.peer_names and not is_named


class ProbeRequests:
    """`may_be_brief`: what else is known of upstream does not speak against it."""

    def __init__(self, *, may_be_brief: bool) -> None:
        self._may_be_brief = may_be_brief
        # Probes that may be brief until the API server itself is asked, and probes until any is.
        self._left = self._pause = 0
        self._is_asked = False

    def is_brief(self, *, in_doubt: bool) -> bool:
        """Of the probe that is about to start; `in_doubt`: upstream is not certainly there."""
        if in_doubt:
            self._left = 0
        is_brief = self._left > 0
        self._is_asked |= is_brief
        return is_brief

    def briefly_answered(self, reply: ProbeReply) -> bool:
        """Whether that proves anything; else the API server is to be asked itself."""
        if reply.status != 200 or not reply.is_of_api_server:
            return False
        self._is_asked = False
        self._left -= 1
        return True

    def answered(self, reply: ProbeReply) -> None:
        """The API server's own answer."""
        if self._is_asked:
            # In vain.
            self._is_asked = False
            self._pause = BRIEF_IN_A_ROW
        may_be_brief = self._may_be_brief and self._pause == 0 and reply.is_of_api_server
        self._left = BRIEF_IN_A_ROW if may_be_brief else 0
        self._pause = max(self._pause - 1, 0)
