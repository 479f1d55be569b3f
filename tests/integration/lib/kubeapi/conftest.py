"""The loops on which a request must do the same."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from edge_sidecars.kubeapi import ApiTransport, Credentials, Plain
from tests.integration.lib.kubeapi.sending import Run, T


@pytest.fixture(params=["asyncio", "uvloop"])
def using(request: pytest.FixtureRequest) -> Run[T]:
    """Runs what it is given on either loop, with the transport to a server."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run(server: str | Credentials, work: Callable[[ApiTransport], Awaitable[T]]) -> T:
        async def main() -> T:
            credentials = Plain(server) if isinstance(server, str) else server
            transport = ApiTransport(credentials, user_agent="test")
            try:
                return await work(transport)
            finally:
                await transport.close()

        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main())

    return run
