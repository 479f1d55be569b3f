"""One process of GM: startup, running, shutdown, in this order.

Owns signals and exit codes. Answers on its own endpoints before anything else is reached.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

import uvloop

from edge_sidecars.kubeapi import ApiClient, Plain
from edge_sidecars.runtime.cli.program import Program
from edge_sidecars.runtime.cli.values import Address, BadInput
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.process import (
    freeze_gc,
    install_signal_handlers,
)
from edge_sidecars.runtime.tasks import Tasks
from edge_sidecars.runtime.web.listener import Listener
from gm.config import PREFIX
from gm.config.config import Config, load, parser
from gm.controller.crd_check import UnfitDefinitions
from gm.web.own_endpoints import GmEndpoints, listening
from gm.wiring import GlobalManager, user_agent

# Seconds from the start: what was imported and listed stays for good.
FREEZE_GC_AFTER = 5.0
# Objects made before a collection: a decision makes hundreds, which are all freed when it is made.
YOUNG_OBJECTS = 10_000


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    instance = environ.get("POD_NAME") or socket.gethostname()
    program = Program(
        name="sedna-gm", prefix=PREFIX, parser=parser, load=load, refusals=(UnfitDefinitions,)
    )
    return program.run(arguments, environ, lambda config: uvloop.run(_serve(config, instance)))


async def _serve(config: Config, instance: str) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    install_signal_handlers(loop, stopping.set, logger=logger)
    async with AsyncExitStack() as stack:
        gm = _global_manager(config, instance, stack)
        own = listening(config.listen, GmEndpoints(gm).handle)
        await own.open()
        stack.push_async_callback(own.close)
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group)
            gm.start(tasks.spawn)
            doors = await _open_doors(config, gm, stack)
            _say_hello(config, own, doors)
            loop.call_later(FREEZE_GC_AFTER, partial(freeze_gc, young=YOUNG_OBJECTS))
            await stopping.wait()
            await gm.stop()
            tasks.cancel()


def _global_manager(config: Config, instance: str, stack: AsyncExitStack) -> GlobalManager:
    def server(url: str) -> ApiClient:
        # The controller's workers', the report queue's and the Events' at once.
        it = ApiClient(
            Plain(url, proxies=config.proxies),
            user_agent=user_agent(instance),
            max_idle=config.concurrency + 16,
        )
        stack.push_async_callback(it.close)
        return it

    return GlobalManager(
        config,
        api=server(config.api),
        relay=None if config.relay_status is None else server(config.relay_status),
        instance=instance,
    )


async def _open_doors(
    config: Config, gm: GlobalManager, stack: AsyncExitStack
) -> dict[str, object]:
    """Where LCs come; what was bound. Raises `BadInput`."""
    if gm.hub is None or config.stream_listen is None:
        return {}
    # Imported only where used: gRPC is half of the memory.
    from gm.hub.credentials import ServerTls, TokenReviews, UnusableCertificate
    from gm.hub.stream_server import CannotListen, StreamServer

    tls = None
    if config.tls_cert is not None and config.tls_key is not None:
        tls = ServerTls(config.tls_cert, config.tls_key, config.client_ca)
    streams = StreamServer(
        gm.hub,
        tls=tls,
        reviewer=(
            TokenReviews(gm.api, timeout=config.request_timeout, account=config.lc_service_account)
            if config.lc_service_account is not None
            else None
        ),
        trust_any_lc=config.trust_any_lc,
    )
    try:
        port = await streams.start(str(config.stream_listen))
    except CannotListen as error:
        raise BadInput(f"--stream-listen {error}; choose another address") from error
    except UnusableCertificate as error:
        raise BadInput(f"--tls-cert {config.tls_cert}: {error}") from error
    stack.push_async_callback(streams.stop)
    doors: dict[str, object] = {"streams": Address(config.stream_listen.host, port)}
    if config.sedna_listen is not None:
        from gm.hub.sedna_server import SednaServer

        sedna = SednaServer(gm.hub)
        try:
            port = await sedna.start(config.sedna_listen.host, config.sedna_listen.port)
        except CannotListen as error:
            raise BadInput(f"--sedna-listen {error}; choose another address") from error
        stack.push_async_callback(sedna.stop)
        doors["sedna"] = Address(config.sedna_listen.host, port)
    return doors


def _say_hello(config: Config, own: Listener, doors: Mapping[str, object]) -> None:
    for warning in config.warnings:
        logger.warning(warning)
    logger.info(
        "managing",
        extra=fields(
            mode=config.mode.value,
            namespaces=" ".join(config.namespaces) or "all",
            api=config.api,
            elector=config.elector,
            listen=own.bound,
            **doors,
        ),
    )
