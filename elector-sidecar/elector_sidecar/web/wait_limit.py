"""Long polls and streams: how many may be open at a time, how long they wait, what they ask for."""

from collections.abc import Iterator
from contextlib import contextmanager

from edge_sidecars.runtime.cli.values import BadInput, seconds
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import text

# A long poll longer than this says more about a typing error than about patience.
MAX_WAIT = 3600.0
# A long poll for more validity looks so often whether a renewal brought it.
RENEWAL_POLL = 0.1


class WaitLimit:
    """How many long polls and streams may be open at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open = 0

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Whether there is one left."""
        is_there = self._open < self.most
        self._open += is_there
        try:
            yield is_there
        finally:
            self._open -= is_there


def full(limit: WaitLimit) -> web.Response:
    return text(
        503,
        f"{limit.most} clients wait already: ask again, or without waiting",
        {"Retry-After": "1"},
    )


def wait_seconds(text: str) -> float:
    """Raises `BadInput`."""
    wait = named_seconds("wait", text)
    if wait > MAX_WAIT:
        raise BadInput(f"wait={text}: at most {MAX_WAIT:g}s")
    return wait


def named_seconds(name: str, text: str) -> float:
    try:
        return seconds(text)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error


def truth(name: str, text: str) -> bool:
    if text not in ("true", "false", "1", "0"):
        raise BadInput(f"{name}={text!r:.80}: write {name}=true or {name}=false")
    return text in ("true", "1")
