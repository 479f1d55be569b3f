"""Looks whether the admission policies are in force, again and again.

Guarantees: nothing is taken to be in force that was not seen to be within `FORGET` seconds; a look
without an answer changes nothing until then.
"""

import asyncio
import math
from typing import Never

from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from pool_sidecar.controller.api import PoolApi
from pool_sidecar.core.controller.guards import GROUP_PATH, POLICIES, lack

# Seconds between two looks: four small requests each.
LOOK_EVERY = 30.0
# While something is missing, somebody is about to apply it.
LOOK_AGAIN = 5.0
FORGET = 180.0


class PolicyWatch:
    def __init__(self, api: PoolApi) -> None:
        self._api = api
        self._lack = "the admission policies were not looked at yet"
        self._seen_at = -math.inf
        self._told = ""

    @property
    def lack(self) -> str:
        """Why nothing may be done; "" where all is in force."""
        if not self._lack and boottime() - self._seen_at > FORGET:
            return f"the admission policies were not seen for {FORGET:g}s"
        return self._lack

    async def run(self) -> Never:
        """Until cancelled."""
        while True:
            try:
                self._lack = await self._look()
                self._seen_at = boottime()
            except ApiError as error:
                if error.is_refusal:
                    self._lack = f"the admission policies cannot be read: {error}"
                else:
                    self._retry(error)
            except Unreachable as error:
                self._retry(error)
            if self._lack != self._told:
                self._tell()
            await asyncio.sleep(LOOK_AGAIN if self._lack else LOOK_EVERY)

    async def _look(self) -> str:
        for name in POLICIES:
            policy = await self._api.get(f"{GROUP_PATH}/validatingadmissionpolicies/{name}")
            bindings = f"{GROUP_PATH}/validatingadmissionpolicybindings/{name}"
            found = lack(name, policy, await self._api.get(bindings))
            if found:
                return found
        return ""

    def _retry(self, error: Exception) -> None:
        logger.debug("the admission policies were not seen", extra=fields(why=error))

    def _tell(self) -> None:
        self._told = self._lack
        if self._lack:
            logger.error("doing nothing", extra=fields(why=self._lack))
        else:
            logger.info("the admission policies are in force")
