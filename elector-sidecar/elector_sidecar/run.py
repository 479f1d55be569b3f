"""One process of the sidecar: startup, running, shutdown, in this order.

Owns signals and exit codes. Answers HTTP before the first contact with the API server.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping

from kubeapi import ApiServer, Credentials, InCluster, Plain, UnusableCredentials

from .config import BadInput, Config, load, parser
from .elector import Elector
from .listener import Listener, watch_over
from .log import fields, logger, setup
from .main_container import MainContainer
from .web import Answers

BAD_INPUT = 2
SECOND_SIGNAL = 1
VERSION = "0.1.0"


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    if not arguments and not environ.get("ELECTOR_LEASE"):
        parser().print_usage(sys.stderr)
        return BAD_INPUT
    try:
        config = load(arguments, environ, hostname=socket.gethostname())
        setup(config.log_format, config.log_level)
        credentials, config = _credentials(config)
        asyncio.run(_serve(config, credentials))
    except (BadInput, UnusableCredentials) as error:
        sys.stderr.write(f"elector-sidecar: {error}\n")
        return BAD_INPUT
    return 0


def _credentials(config: Config) -> tuple[Credentials, Config]:
    """Raises `UnusableCredentials`, or `BadInput` where no namespace is to be had."""
    if config.kubeconfig is not None:
        from dataclasses import replace

        from kubeapi.kubeconfig import Kubeconfig

        kubeconfig = Kubeconfig(config.kubeconfig, server=config.server)
        namespace = config.namespace or kubeconfig.namespace
        if not namespace:
            raise BadInput(
                f"--namespace is missing, and the context of {config.kubeconfig} names none"
            )
        return kubeconfig, replace(config, namespace=namespace)
    if config.server is not None and config.server.startswith("http:"):
        return Plain(config.server), config
    return InCluster(config.server or "", config.service_account_dir), config


async def _serve(config: Config, credentials: Credentials) -> None:
    identity = f"{config.identity}_{uuid.uuid4()}"
    server = ApiServer(credentials, user_agent=f"elector-sidecar/{VERSION} ({identity})")
    async with MainContainer() as main:
        elector = Elector(config, server, main, identity=identity)
        _obey_signals(elector)
        listeners = _listeners(config, Answers(elector))
        try:
            for listener in listeners:
                await listener.open()
            _say_hello(config, identity, server.url, listeners)
            # Everything imported stays for good: not to be walked by every collection.
            gc.collect()
            gc.freeze()
            guard = asyncio.create_task(
                watch_over(listeners[0], lambda alive: elector.listener_checked(is_alive=alive))
            )
            await elector.run()
            guard.cancel()
        finally:
            for listener in listeners:
                await listener.close()
            await server.close()


def _listeners(config: Config, answers: Answers) -> list[Listener]:
    listeners = [Listener(config.listen, answers.handle)]
    if config.probe_listen is not None:
        listeners.append(Listener(config.probe_listen, answers.handle_probe))
    if config.contrib_listen is not None:
        listeners.append(Listener(config.contrib_listen, answers.handle_contrib))
    return listeners


def _obey_signals(elector: Elector) -> None:
    is_second = False

    def obey() -> None:
        nonlocal is_second
        if is_second:
            os._exit(SECOND_SIGNAL)
        is_second = True
        logger.info("terminating")
        elector.terminate()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, obey)


def _say_hello(config: Config, identity: str, url: str, listeners: list[Listener]) -> None:
    for warning in config.warnings:
        logger.warning(warning)
    logger.info(
        "contending",
        extra=fields(
            lease=f"{config.namespace}/{config.lease}",
            identity=identity,
            server=url,
            listen=",".join(str(listener.bound) for listener in listeners),
            lease_duration=config.timing.lease_duration,
            **config.timing.tolerances(),
        ),
    )
