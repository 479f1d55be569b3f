"""What the process asks of what connects LC to its objects and to those who take its reports."""

from typing import Protocol

import msgspec


class GmLinkStatus(msgspec.Struct, frozen=True):
    """`peer`: who is, or was last, at the other end; `since`: seconds on CLOCK_BOOTTIME; `problem`:
    why it is not up, in words for people."""

    is_up: bool
    peer: str
    since: float
    problem: str = ""


class GmLink(Protocol):
    """To GM's stream, or to the relay."""

    async def run(self) -> None:
        """Until cancelled: it redials by itself, for as long as it takes."""
        ...

    def status(self) -> GmLinkStatus:
        """As of now."""
        ...
