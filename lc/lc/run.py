"""One process of LC: startup, running, shutdown, in this order.

Owns signals and exit codes. Answers from its own store before GM, or the relay, is there.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack

import uvloop

from lc.config.config import Config, load
from lc.local_controller import LocalController
from lc.log import fields, logger, setup
from lc.remote import Remote
from lc.store import StoreUnavailable, open_store
from lc.store.failures import Damaged, DirectoryInUse, NewerSchema
from lc.version import VERSION
from lc.web.doors import Loopback, NodeDoor, TokenFile
from lc.web.listener import Listener, connection_limit
from sidecar.values import BadInput

FAILED = 1
BAD_INPUT = 2
SECOND_SIGNAL = 1
# Seconds from the first answer: what was imported and loaded stays for good.
TIDY_AFTER = 2.0


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    status = 0
    try:
        config = load(arguments, environ, hostname=socket.gethostname())
        setup(config.log_format, config.log_level)
        uvloop.run(_serve(config))
    except* (BadInput, DirectoryInUse, NewerSchema) as group:
        sys.stderr.write(f"lc: {_first(group)}\n")
        status = BAD_INPUT
    except* (Damaged, StoreUnavailable) as group:
        logger.error("the store cannot be used", extra=fields(error=_first(group)))
        status = FAILED
    return status


async def _serve(config: Config) -> None:
    stopping = _obey_signals()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config.data_dir))
        remote = Remote()
        stack.push_async_callback(remote.close)
        controller = LocalController(config, store, remote)
        controller.start()
        async with asyncio.TaskGroup() as group:
            listeners = _listeners(config, controller)
            for listener in listeners:
                await listener.open()
                stack.push_async_callback(listener.close)
            _say_hello(config, controller, listeners)
            tasks = [group.create_task(each.run()) for each in controller.managers]
            tasks.append(group.create_task(controller.link.run()))
            asyncio.get_running_loop().call_later(TIDY_AFTER, _tidy)
            await stopping.wait()
            # Workers first: what they have said is answered when it is durable.
            for listener in listeners:
                await listener.close()
            for task in tasks:
                task.cancel()


def _listeners(config: Config, controller: LocalController) -> list[Listener]:
    handle = controller.api.handle
    count = 1 if config.node_listen is None else 2
    limit = connection_limit(count)
    listeners = [Listener(config.listen, Loopback(handle).handle, limit=limit)]
    if config.node_listen is not None and config.token_file is not None:
        door = NodeDoor(handle, TokenFile(config.token_file))
        listeners.append(Listener(config.node_listen, door.handle, limit=limit))
    return listeners


def _obey_signals() -> asyncio.Event:
    stopping = asyncio.Event()

    def obey() -> None:
        if stopping.is_set():
            os._exit(SECOND_SIGNAL)
        logger.info("terminating")
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, obey)
    return stopping


def _tidy() -> None:
    """Everything imported and loaded stays for good: not to be walked by every collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What is inside of all the groups."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _say_hello(config: Config, controller: LocalController, listeners: list[Listener]) -> None:
    status = controller.status()
    if status.store.note:
        logger.error(
            "the store was broken: reports that waited in it are lost",
            extra=fields(why=status.store.note, store=status.store.id),
        )
    logger.info(
        "controlling",
        extra=fields(
            node=config.node,
            mode=status.mode,
            peer=config.api if config.is_relay else ",".join(map(str, config.gm_addresses)),
            listen=",".join(str(listener.bound) for listener in listeners),
            data=config.data_dir,
            store=status.store.id,
            objects=len(status.objects),
            waiting=status.reports.waiting,
            version=VERSION,
        ),
    )
