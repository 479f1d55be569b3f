"""Log lines: a constant message and key/value fields, as text or as JSON, on standard error."""

import json
import logging
import time
from collections import OrderedDict
from typing import Any

from edge_sidecars.runtime.formats import rfc3339


def fields(**values: object) -> dict[str, Any]:
    """For `extra=`: `logger.info("link up", extra=fields(server=url))`."""
    return {"fields": values}


class Sparing:
    """Lets a line about each cause through once in `every` seconds: what goes wrong at each of many
    tries, or for each of many streams, is logged once."""

    def __init__(self, *, every: float = 60.0, limit: int = 1000) -> None:
        self._every = every
        self._limit = limit
        self._told_at: OrderedDict[tuple[object, ...], float] = OrderedDict()

    def allows(self, *cause: object) -> bool:
        """Whether a line about it is due; the caller writes it then."""
        now = time.monotonic()
        told_at = self._told_at.get(cause)
        if told_at is not None and now - told_at < self._every:
            return False
        self._told_at[cause] = now
        self._told_at.move_to_end(cause)
        while len(self._told_at) > self._limit:
            self._told_at.popitem(last=False)
        return True

    def forget(self, *cause: object) -> None:
        """It is over: when it comes again, that is news."""
        self._told_at.pop(cause, None)


logger = logging.getLogger("edge-sidecars")
# One of this process: what is wrong with a server is so for all that ask it.
sparing = Sparing()


def setup(log_format: str, log_level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if log_format == "json" else _Text())
    logging.basicConfig(level=log_level.upper(), handlers=[handler], force=True)
    # Their request lines would double everything.
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        values = getattr(record, "fields", {})
        told = "".join(f" {key}={_quoted(value)}" for key, value in values.items())
        line = f"{_stamp(record)} {record.levelname:<7} {record.getMessage()}{told}"
        return (
            line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"
        )


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _stamp(record: logging.LogRecord) -> str:
    return rfc3339.stamp_of(record.created, "milliseconds")


def _quoted(value: object) -> str:
    """Upstream's and clients' words among others: no line of theirs is to look like one of ours."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    is_plain = text.isprintable() and " " not in text and '"' not in text
    return text if text and is_plain else json.dumps(text)
