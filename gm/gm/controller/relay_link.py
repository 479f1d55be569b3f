"""Whether the relay of this pod reaches the API server, as far as it knows.

Owns the question, asked each second. Guarantees: a relay that does not answer is no link; without
one to ask (`--relay-status off`) the link counts as up.
"""

import asyncio
from collections.abc import Callable

from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from edge_sidecars.runtime.log import fields, logger

INTERVAL = 1.0
TIMEOUT = 1.0
# In a row; one answer may be late on a busy machine.
FAILURES = 2


class GmRelayLink:
    """`changed` is called whenever `is_up` changed."""

    def __init__(self, relay: ApiClient | None, changed: Callable[[], None]) -> None:
        self._relay = relay
        self._changed = changed
        self._failures = 0
        self.is_up = relay is None

    async def run(self) -> None:
        """Until cancelled."""
        if self._relay is None:
            return
        while True:
            is_up, why = await self._ask(self._relay)
            self._failures = 0 if is_up is not None else self._failures + 1
            if is_up is None:
                is_up = self.is_up and self._failures < FAILURES
            if is_up != self.is_up:
                self.is_up = is_up
                if is_up:
                    logger.info("the link is up")
                else:
                    logger.warning("the link is down", extra=fields(why=why))
                self._changed()
            await asyncio.sleep(INTERVAL)

    async def _ask(self, relay: ApiClient) -> tuple[bool | None, str]:
        """None: it did not say."""
        try:
            status = await relay.request("GET", "/status", timeout=TIMEOUT, pooled=True)
        except (ApiError, Unreachable) as error:
            return None, str(error)
        link = status.get("link")
        is_up = link.get("isUp") if isinstance(link, dict) else None
        if not isinstance(is_up, bool):
            return None, "the answer is no relay's"
        return is_up, "the relay says so"
