"""What the command line means for streams and for reads."""

from edge_sidecars.runtime.memory_limit import memory_limit
from relay_sidecar.config.config import Config
from relay_sidecar.streams.streams import DEFAULT_BUDGET, Limits
from relay_sidecar.web.reads.freshness import ReadSettings

# A window covers what a client misses between two watches; bytes and events of one stream.
WINDOW_BYTES = 8 * 1024 * 1024
WINDOW_EVENTS = 10_000
# Of the budget, the window of one stream: a few busy ones leave room for objects.
WINDOW_SHARE = 1 / 16
# Of the budget, documents of OpenAPI: kubectl validates by them, nothing on a node needs them.
SCHEMAS_SHARE = 1 / 4
# Of the cgroup's limit; the rest is for the process itself and for answers under way.
SHARE_OF_LIMIT = 0.6


def budget_of(config: Config) -> int:
    """Bytes."""
    if config.memory_budget is not None:
        return config.memory_budget
    limit = memory_limit()
    return DEFAULT_BUDGET if limit is None else int(limit * SHARE_OF_LIMIT)


def limits_of(config: Config) -> Limits:
    budget = budget_of(config)
    return Limits(
        memory_budget=budget,
        max_streams=config.max_streams,
        max_objects=config.max_objects,
        max_watchers=config.max_watchers,
        window_bytes=min(WINDOW_BYTES, int(budget * WINDOW_SHARE)),
        window_events=WINDOW_EVENTS,
        idle_timeout=config.idle_timeout,
        retain=config.retain,
        open_timeout=config.read_timeout,
    )


def settings_of(config: Config) -> ReadSettings:
    return ReadSettings(
        reads_cache=not config.reads_upstream,
        read_timeout=config.read_timeout,
        request_timeout=config.request_timeout,
        max_watchers=config.max_watchers,
        watch_buffer=config.watch_buffer,
    )
