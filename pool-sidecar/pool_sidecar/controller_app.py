"""One process of `pool-sidecar controller`: startup, running, shutdown, in this order.

Owns signals and exit codes. Answers on its own endpoints before anything else is reached.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack

from edge_sidecars.kubeapi import ApiClient, Credentials, UnusableCredentials, pod_credentials
from edge_sidecars.runtime.cli.program import Program
from edge_sidecars.runtime.log import logger
from edge_sidecars.runtime.process import (
    VERSION,
    freeze_gc,
    install_signal_handlers,
)
from pool_sidecar.config.controller_config import (
    CONTROLLER_PREFIX,
    ControllerConfig,
    load,
    parser,
)
from pool_sidecar.controller.controller import CONCURRENCY, Controller
from pool_sidecar.web.controller_endpoints import listening

# Seconds from the start: what was imported and listed stays for good.
FREEZE_GC_AFTER = 5.0


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    instance = environ.get("POD_NAME") or socket.gethostname()
    program = Program(
        name="pool-sidecar controller",
        prefix=CONTROLLER_PREFIX,
        parser=parser,
        load=load,
        refusals=(UnusableCredentials,),
    )
    return program.run(arguments, environ, lambda config: asyncio.run(_serve(config, instance)))


def _credentials(config: ControllerConfig) -> Credentials:
    """Raises `UnusableCredentials`."""
    if config.kubeconfig is not None:
        from edge_sidecars.kubeapi.kubeconfig import Kubeconfig

        return Kubeconfig(config.kubeconfig, server=config.server, proxies=config.proxies)
    return pod_credentials(config.server, config.service_account_dir, config.proxies)


async def _serve(config: ControllerConfig, instance: str) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    install_signal_handlers(loop, stopping.set, logger=logger)
    async with AsyncExitStack() as stack:
        api = ApiClient(
            _credentials(config),
            user_agent=f"pool-controller/{VERSION} ({instance})",
            max_idle=CONCURRENCY,
        )
        stack.push_async_callback(api.close)
        controller = Controller(config, api, instance=instance)
        own = listening(config.listen, controller)
        await own.open()
        stack.push_async_callback(own.close)
        controller.say_hello(own.bound)
        loop.call_later(FREEZE_GC_AFTER, freeze_gc)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(controller.run())
            await stopping.wait()
            controller.leader.resign()
            running.cancel()
