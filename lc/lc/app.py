"""One process of LC: startup, running, shutdown, in this order.

Owns signals, exit codes and sockets. Answers from its own store before GM, or the relay, is there.
Guarantee: clients can never use up the file descriptors that the store, datasets and the link need.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

import uvloop

from edge_sidecars.runtime.cli.program import Program
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.process import (
    VERSION,
    first_cause,
    freeze_gc,
    install_signal_handlers,
)
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions, connection_limit
from edge_sidecars.walstore.database import Damaged
from edge_sidecars.walstore.files import DirectoryInUse
from lc.config import PREFIX, SEDNA_TWINS
from lc.config.config import Config, load, parser
from lc.files.remote_files import Remote, TransferLimits
from lc.store import StoreUnavailable, open_store
from lc.store.failures import NewerSchema
from lc.web.authentication import LoopbackOnly, TokenAuthentication, TokenFile
from lc.wiring import LocalController

FAILED = 1
# mkdir(2): a file system that has no such directory, for root neither, like /proc.
_REFUSED_PATH = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
)
# More than the workers of a node, each of which opens a connection for each report.
MAX_CONNECTIONS = 512
# Kept for datasets, the store, the link and the runtime itself.
RESERVED_DESCRIPTORS = 128
MIN_CONNECTIONS = 8
_LISTENER_OPTIONS = ListenerOptions(
    log="lc.http",
    backlog=128,
    # Requests that were begun may be answered.
    shutdown_grace=5.0,
    # A worker's report is taken also where the worker left: it may have been killed.
    ends_with_client=False,
)
# Seconds from the first answer: what was imported and loaded stays for good.
FREEZE_GC_AFTER = 2.0


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    program = Program(
        name="sedna-lc",
        prefix=PREFIX,
        parser=parser,
        load=partial(load, hostname=socket.gethostname()),
        others=SEDNA_TWINS.values(),
        refusals=(DirectoryInUse, NewerSchema),
    )
    return program.run(arguments, environ, _run)


def _run(config: Config) -> int:
    """The exit status."""
    _check_directories(config)
    status = 0
    try:
        uvloop.run(_serve(config))
    except* (Damaged, StoreUnavailable) as group:
        logger.error("the store cannot be used", extra=fields(error=first_cause(group)))
        status = FAILED
    return status


def _check_directories(config: Config) -> None:
    """Raises `BadInput`. A disk that fails is another matter: the store says so."""
    if not config.root.is_dir():
        raise BadInput(
            f"--root {config.root} is not there: mount directories of the node below it, or name "
            "the directory below which they are mounted (ROOTFS_MOUNT_DIR)"
        )
    data_dir = config.data_dir
    there = next(path for path in (data_dir, *data_dir.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(
            f"--data-dir {data_dir}: {there} is no directory that this user may write to; name "
            "another"
        )
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in _REFUSED_PATH:
            return
        raise BadInput(
            f"--data-dir {data_dir}: it cannot be made: {describe_failure(error)}; name another"
        ) from error


async def _serve(config: Config) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    install_signal_handlers(loop, stopping.set, logger=logger)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config.data_dir))
        limits = TransferLimits(config.max_transfer_size, config.transfer_timeout)
        remote = Remote(limits, own_ports=config.own_ports)
        stack.push_async_callback(remote.close)
        controller = LocalController(config, store, remote)
        controller.managers.start()
        async with asyncio.TaskGroup() as group:
            listeners = _listeners(config, controller)
            for listener in listeners:
                await listener.open()
                stack.push_async_callback(listener.close)
            _say_hello(config, controller, listeners)
            tasks = [group.create_task(each.run()) for each in controller.managers.all]
            tasks.append(group.create_task(controller.unknown_jobs.run()))
            tasks.append(group.create_task(controller.link.run()))
            loop.call_later(FREEZE_GC_AFTER, freeze_gc)
            await stopping.wait()
            # Workers first: their reports are answered when they are durable.
            for listener in listeners:
                await listener.close()
            for task in tasks:
                task.cancel()


def _listeners(config: Config, controller: LocalController) -> list[Listener]:
    handle = controller.api.handle
    handlers = [(config.listen, LoopbackOnly(handle).handle)]
    if config.node_listen is not None and config.token_file is not None:
        door = TokenAuthentication(handle, TokenFile(config.token_file))
        handlers.append((config.node_listen, door.handle))
    # For each of the listeners, which share this process' descriptors.
    limit = connection_limit(
        len(handlers), most=MAX_CONNECTIONS, least=MIN_CONNECTIONS, reserved=RESERVED_DESCRIPTORS
    )
    return [
        Listener(address, handler, options=_LISTENER_OPTIONS, limit=limit)
        for address, handler in handlers
    ]


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
            files=",".join(map(str, config.files_roots)),
            store=status.store.id,
            objects=len(status.objects),
            waiting=status.reports.waiting,
            version=VERSION,
        ),
    )
