"""What the command line means for streams and for reads."""

from relay_sidecar.config.config import Config
from relay_sidecar.streams.streams import Limits
from relay_sidecar.web.reads.freshness import ReadSettings

# A window covers what a client misses between two watches; bytes and events of one stream.
WINDOW_BYTES = 8 * 1024 * 1024
WINDOW_EVENTS = 10_000


def limits_of(config: Config) -> Limits:
    return Limits(
        max_objects=config.max_objects,
        max_watchers=config.max_watchers,
        window_bytes=WINDOW_BYTES,
        window_events=WINDOW_EVENTS,
        idle_timeout=config.idle_timeout,
        retain=config.retain,
        open_timeout=config.request_timeout,
    )


def settings_of(config: Config) -> ReadSettings:
    return ReadSettings(
        is_origin=config.is_local,
        reads_cache=config.is_local or not config.reads_upstream,
        read_timeout=config.read_timeout,
        request_timeout=config.request_timeout,
        max_watchers=config.max_watchers,
        watch_buffer=config.watch_buffer,
        shard_pushdown=config.shard_pushdown,
    )
