"""What is measured about one relay, computed at the scrape.

Owns the counters too: what only grows is counted where it happens, because streams and watchers
come and go.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from edge_sidecars.runtime.metrics import Histogram, Kind, Metric, histogram
from relay_sidecar.telemetry.status import (
    LINK_STATES,
    MemoryBudget,
    RelayStatus,
    StreamStatus,
)

Source = Literal["cache", "upstream"]
Samples = tuple[tuple[dict[str, str], float], ...]
# Clients that make up others must not grow the process.
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
# Seconds: an answer from the cache takes a millisecond, --read-timeout is 1, --request-timeout 5.
ANSWER_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
# Seconds: a transaction of the journal takes a millisecond, company is waited for up to 50.
DELAY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# Nor may requests for resources that do not exist; a cluster has one or two hundred.
MAX_REFUSALS = 500


@dataclass
class RelayCounters:
    """`requests`: by method, status code and who answered; `refused_requests`: those that the relay
    itself refused, by verb, resource and reason; `refusals`: streams that were refused, by resource
    and status code. Events are lines of watches, received from upstream and sent to all
    watchers together."""

    requests: Counter[tuple[str, int, Source]] = field(default_factory=Counter)
    refused_requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    refusals: Counter[tuple[str, int]] = field(default_factory=Counter)
    # By resource and what it was: an item of a list, or an event.
    unreadable: Counter[tuple[str, str]] = field(default_factory=Counter)
    events_received: int = 0
    events_sent: int = 0
    bytes_received: int = 0
    link_changes: int = 0
    relists: int = 0
    slow_watchers: int = 0
    tokens_replayed: int = 0
    rows_rejected: int = 0
    lying_hubs: int = 0
    # By verb and who answered.
    durations: dict[tuple[str, Source], Histogram] = field(default_factory=dict)
    event_delay: Histogram = field(default_factory=lambda: Histogram(DELAY_BOUNDS))

    def received(self, size: int) -> None:
        self.bytes_received += size

    def link_changed(self, is_up: bool) -> None:
        self.link_changes += 1

    def answered(self, method: str, code: int, source: Source) -> None:
        self.requests[method if method in METHODS else "other", code, source] += 1

    def took(self, verb: str, source: Source, seconds: float) -> None:
        """An answer to a request for a resource, `verb` being one of Kubernetes' own."""
        found = self.durations.get((verb, source))
        if found is None:
            found = self.durations[verb, source] = Histogram(ANSWER_BOUNDS)
        found.observe(seconds)

    def request_refused(self, verb: str, resource: str, reason: str) -> None:
        key = verb, resource, reason
        if key not in self.refused_requests and len(self.refused_requests) >= MAX_REFUSALS:
            key = verb, "other", reason
        self.refused_requests[key] += 1

    def unreadable_came(self, resource: str, what: str, count: int) -> None:
        is_told = (resource, what) in self.unreadable or len(self.unreadable) < MAX_REFUSALS
        self.unreadable[resource if is_told else "other", what] += count

    def refused(self, resource: str, code: int) -> None:
        """A list or watch of the relay's own, by upstream or, 429, for want of room here."""
        is_told = (resource, code) in self.refusals or len(self.refusals) < MAX_REFUSALS
        self.refusals[resource if is_told else "other", code] += 1


def measure(status: RelayStatus, counters: RelayCounters) -> list[Metric]:
    return [
        *_state(status),
        *_of_streams(status.streams),
        *status.measured,
        *_counted(counters),
    ]


def _state(status: RelayStatus) -> list[Metric]:
    journal = status.journal
    return [
        _gauge("relay_link_up", "1 if the link to upstream is up.", status.link.is_up),
        Metric(
            "relay_link_state",
            Kind.GAUGE,
            "1 for the present state of the link to upstream, 0 for the other states.",
            tuple(({"state": it}, float(it == status.link.state)) for it in LINK_STATES),
        ),
        Metric(
            "relay_link_via",
            Kind.GAUGE,
            "1 for the neighbour whose link is borrowed; no series on the own link.",
            (({"node": status.link.via}, 1.0),) if status.link.via else (),
        ),
        _gauge(
            "relay_link_down_seconds",
            "Seconds since the link to upstream went down; 0 while it is up.",
            status.link.down_for or 0.0,
        ),
        _gauge(
            "relay_journal_failed",
            "1 if the relay cannot write its cache to the disk now.",
            journal.failure is not None,
        ),
        _gauge("relay_watchers", "Open watches of clients.", status.watchers),
        _gauge(
            "relay_watchers_limit", "Limit of open watches: --max-watchers.", status.max_watchers
        ),
        _gauge(
            "relay_objects_limit", "Limit of cached objects: --max-objects.", status.max_objects
        ),
        *_of_budget(status.budget),
    ]


def _of_budget(budget: MemoryBudget) -> list[Metric]:
    evicted = (("stream", budget.evicted_streams), ("object", budget.evicted_objects))
    return [
        _gauge("relay_memory_used_bytes", "Bytes of the cache in memory.", budget.used),
        _gauge(
            "relay_memory_limit_bytes",
            "Limit of relay_memory_used_bytes: --memory-budget.",
            budget.limit,
        ),
        _gauge("relay_streams_running", "Streams that follow upstream now.", budget.running),
        _gauge(
            "relay_streams_limit", "Limit of running streams: --max-streams.", budget.max_streams
        ),
        Metric(
            "relay_evicted_total",
            Kind.COUNTER,
            "Streams and single objects that the relay deleted to stay within its limits.",
            tuple(({"kind": kind}, float(count)) for kind, count in evicted),
        ),
    ]


def _of_streams(streams: Sequence[StreamStatus]) -> list[Metric]:
    labelled = [(_labels(stream), stream) for stream in streams]
    states = Counter(stream.state for stream in streams)

    def gauge(name: str, text: str, values: Sequence[float | None]) -> Metric:
        samples = zip((labels for labels, _ in labelled), values, strict=True)
        known = tuple((labels, float(value)) for labels, value in samples if value is not None)
        return Metric(name, Kind.GAUGE, text, known)

    return [
        Metric(
            "relay_streams",
            Kind.GAUGE,
            "Streams (one upstream list and watch each), by state.",
            tuple(({"state": state}, float(count)) for state, count in sorted(states.items())),
        ),
        gauge("relay_stream_objects", "Objects in a stream.", [it.objects for it in streams]),
        gauge(
            "relay_stream_bytes",
            "Bytes of a stream's objects and window.",
            [it.size_bytes for it in streams],
        ),
        gauge(
            "relay_stream_age_seconds",
            "Seconds since upstream confirmed that a stream misses nothing; not of idle ones.",
            # It has no readers: its upstream watch was ended on purpose.
            [None if it.state == "idle" else it.age for it in streams],
        ),
        gauge(
            "relay_stream_watchers",
            "Open watches of clients on a stream.",
            [it.watchers for it in streams],
        ),
    ]


def _counted(counters: RelayCounters) -> list[Metric]:
    return [
        Metric(
            "relay_requests_total",
            Kind.COUNTER,
            "Requests by method, status code and source of the answer: cache or upstream.",
            _by(counters.requests, "method", "code", "source"),
        ),
        histogram(
            "relay_request_duration_seconds",
            "Seconds from a request to its answer, by verb and source; not of watches and tunnels.",
            (
                ({"verb": verb, "source": source}, it)
                for (verb, source), it in sorted(counters.durations.items())
            ),
        ),
        Metric(
            "relay_requests_refused_total",
            Kind.COUNTER,
            "Requests that the relay itself refused, by verb, resource and reason.",
            _by(counters.refused_requests, "verb", "resource", "reason"),
        ),
        Metric(
            "relay_stream_refusals_total",
            Kind.COUNTER,
            "Streams that upstream refused, by status code; 429: no room within --max-objects.",
            _by(counters.refusals, "resource", "code"),
        ),
        Metric(
            "relay_unreadable_total",
            Kind.COUNTER,
            "Items of lists and events of watches that were skipped because they are unreadable.",
            _by(counters.unreadable, "resource", "what"),
        ),
        _counter(
            "relay_events_received_total",
            "Watch events received from upstream.",
            counters.events_received,
        ),
        _counter("relay_events_sent_total", "Watch events sent to clients.", counters.events_sent),
        histogram(
            "relay_event_delay_seconds",
            "Seconds from an event's arrival to its write to a watcher, at most.",
            [({}, counters.event_delay)],
        ),
        _counter(
            "relay_upstream_received_bytes_total",
            "Bytes of lists and watches received from upstream.",
            counters.bytes_received,
        ),
        _counter(
            "relay_link_changes_total",
            "How often the link to upstream went down or came up.",
            counters.link_changes,
        ),
        _counter(
            "relay_relists_total",
            "Lists after the first of a stream: upstream no longer had its version.",
            counters.relists,
        ),
        _counter(
            "relay_slow_watchers_closed_total",
            "Watches that were closed because the client read too slowly (--watch-buffer).",
            counters.slow_watchers,
        ),
        _counter(
            "relay_tokens_replayed_total",
            "TokenRequests that were answered from the cache while upstream was unreachable.",
            counters.tokens_replayed,
        ),
        _counter(
            "relay_journal_rows_rejected_total",
            "Rows about rights that were deleted from the disk: no relay with this key wrote them.",
            counters.rows_rejected,
        ),
        _counter(
            "relay_lying_hubs_total",
            "Hubs of the pool that sent what the API server does not have; avoided for an hour.",
            counters.lying_hubs,
        ),
    ]


def _labels(stream: StreamStatus) -> dict[str, str]:
    return {
        "resource": stream.resource,
        "namespace": stream.namespace,
        "label_selector": stream.label_selector,
        "field_selector": stream.field_selector,
    }


def _by(counted: Mapping[tuple[Any, ...], int], *labels: str) -> Samples:
    """A sample of each key, whose parts are the values of the labels."""
    return tuple(
        (dict(zip(labels, map(str, key), strict=True)), float(count))
        for key, count in sorted(counted.items())
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    return Metric(name, Kind.GAUGE, text, (({}, float(value)),))


def _counter(name: str, text: str, value: int) -> Metric:
    return Metric(name, Kind.COUNTER, text, (({}, float(value)),))
