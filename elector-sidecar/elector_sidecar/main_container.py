"""The main container as seen over HTTP: is it healthy, has it stopped?

Shell. Every call has its own connection and a hard deadline; a refused connection is distinguished
from every other failure, because it alone proves that no process listens any more.
"""

import asyncio
import ssl
from functools import cached_property

import aiohttp

from elector_sidecar.core.lifecycle import Health

# A health check that hangs is given up after an interval, but never sooner than this.
MIN_HEALTH_TIMEOUT = 1.0
# The drain URL is asked again so soon after an answer other than 2xx.
DRAIN_RETRY = 0.5
# A refused connection is looked at again so soon, before the main is believed gone.
REFUSAL_RECHECK = 0.1


class MainContainer:
    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            headers={"User-Agent": "elector-sidecar"},
            trust_env=False,
        )

    async def __aenter__(self) -> "MainContainer":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._session.close()

    async def health(self, url: str, *, timeout: float) -> Health:
        try:
            status = await self._status("GET", url, timeout=max(timeout, MIN_HEALTH_TIMEOUT))
        except ConnectionRefusedError:
            return Health.REFUSED
        if status is None:
            return Health.HUNG
        return Health.OK if 200 <= status < 300 else Health.FAILING

    async def drain(self, url: str, *, timeout: float) -> None:
        """Returns when the main has stopped: it answered 2xx, or no process listens."""
        while True:
            try:
                status = await self._status("POST", url, timeout=timeout)
            except ConnectionRefusedError:
                return
            if status is not None and 200 <= status < 300:
                return
            await asyncio.sleep(DRAIN_RETRY)

    async def tell(self, url: str, body: bytes, *, timeout: float) -> bool:
        """POSTs JSON; whether it was taken (2xx)."""
        try:
            status = await self._status("POST", url, timeout=timeout, body=body)
        except ConnectionRefusedError:
            return False
        return status is not None and 200 <= status < 300

    async def _status(
        self, method: str, url: str, *, timeout: float, body: bytes | None = None
    ) -> int | None:
        """None without an answer; raises ConnectionRefusedError."""
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            async with (
                asyncio.timeout(timeout),
                self._session.request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    ssl=self._authorities if url.lower().startswith("https:") else True,
                ) as response,
            ):
                return response.status
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, ConnectionRefusedError):
                raise ConnectionRefusedError from error
            return None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    @cached_property
    def _authorities(self) -> ssl.SSLContext:
        """Those of the machine; reading them takes 25 ms, which few need to wait for."""
        return ssl.create_default_context()
