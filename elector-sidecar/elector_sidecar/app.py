"""One process of the sidecar: startup, running, shutdown, in this order.

Owns signals and exit codes. Answers HTTP before the first contact with the API server.
"""

import asyncio
import os
import socket
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from edge_sidecars.kubeapi import (
    POOLED_FOR,
    ApiClient,
    Credentials,
    UnusableCredentials,
    pod_credentials,
)
from edge_sidecars.runtime.cli.program import Program
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.process import (
    VERSION,
    freeze_gc,
    install_signal_handlers,
)
from edge_sidecars.runtime.web.connections import Handler
from edge_sidecars.runtime.web.listener import Listener
from edge_sidecars.runtime.web.page.asked import MAX_STREAMS
from elector_sidecar.answers_at import answers_at
from elector_sidecar.config import PREFIX
from elector_sidecar.config.config import Address, BadInput, Config, load, parser
from elector_sidecar.elector import Elector, StopMain
from elector_sidecar.leases.lease_file import LeaseFile
from elector_sidecar.machine import Machine, SingleMachine
from elector_sidecar.main_container import MainContainer
from elector_sidecar.notifiers.lease_events import LeaseEvents
from elector_sidecar.web.endpoints import ElectorEndpoints, MakeMore
from elector_sidecar.web.listener import (
    ListenerUnresponsive,
    check_listener,
    connection_limit,
    listening,
)
from elector_sidecar.web.unnamed_lease import UnnamedLease
from elector_sidecar.web.wait_limit import WaitLimit

if TYPE_CHECKING:
    from elector_sidecar.wrapped.wrapped_program import WrappedProgram

LISTENER_UNRESPONSIVE = 1
# Seconds at the end for label, events, notification and telemetry, all of them together; the Lease
# is given up by then. The manual promises 2 s, with listeners and connections.
SHUTDOWN_GRACE = 1.5
SHUTDOWN_POLL = 0.02
# Bytes; a Lease, an Event and the pods with the leader label are shorter.
LONGEST_ANSWER = 8 * 1024 * 1024
# A connection that missed a renewal is not trusted with another.
KEPT_PERIODS = 2.0
# Long polls and streams of clients from outside of the pod: kubelet and Prometheus open none.
MAX_REMOTE_WAITS = 16
# The part of a listener's places that pages may have: long polls have three quarters.
PAGES_SHARE = 8
# Seconds from the start: a released Lease is taken by then, and no client waits for us.
FREEZE_GC_AFTER = 2.0


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    program = Program(
        name="elector-sidecar",
        prefix=PREFIX,
        parser=parser,
        load=partial(load, hostname=socket.gethostname()),
        refusals=(UnusableCredentials,),
    )
    return program.run(arguments, environ, _run)


def _run(config: Config) -> int:
    """The exit status."""
    credentials, config = _credentials(config)
    status = 0
    try:
        status = asyncio.run(_serve(config, credentials))
    except* ListenerUnresponsive as group:
        logger.error("the listener is dead", extra=fields(error=group.exceptions[0]))
        status = LISTENER_UNRESPONSIVE
    return status


def _credentials(config: Config) -> tuple[Credentials, Config]:
    """Raises `UnusableCredentials`, or `BadInput` where no namespace is to be had."""
    if config.kubeconfig is not None:
        from edge_sidecars.kubeapi.kubeconfig import Kubeconfig

        kubeconfig = Kubeconfig(
            config.kubeconfig,
            server=config.server,
            context=config.context,
            flag=config.kubeconfig_from,
            proxies=config.proxies,
        )
        namespace = config.namespace or kubeconfig.namespace
        if not namespace:
            raise BadInput(
                f"--namespace is missing, and the context of {config.kubeconfig} names none"
            )
        pod_namespace = config.pod_namespace or namespace
        return kubeconfig, replace(config, namespace=namespace, pod_namespace=pod_namespace)
    return pod_credentials(config.server, config.service_account_dir, config.proxies), config


async def _serve(config: Config, credentials: Credentials) -> int:
    """The exit status. Until SIGTERM. With `--lease-file`, for one Lease after the other."""
    # Once: what is frozen and given up later is never freed.
    asyncio.get_running_loop().call_later(FREEZE_GC_AFTER, freeze_gc)
    if config.lease_file is None:
        return await _contend(config, credentials)
    stopping = asyncio.Event()
    lease_file = LeaseFile(config.lease_file)
    while not stopping.is_set():
        if name := await _named(config, lease_file, stopping):
            await _contend(replace(config, lease=name), credentials, lease_file, stopping)
    return 0


async def _named(config: Config, lease_file: LeaseFile, stopping: asyncio.Event) -> str:
    """The Lease's name; "" after SIGTERM. Answers HTTP until then."""
    install_signal_handlers(asyncio.get_running_loop(), stopping.set, logger=logger)
    handler = UnnamedLease(lambda: lease_file.reason or f"{lease_file.path} is read again").handle
    async with AsyncExitStack() as stack:
        listeners = _bound(config, (handler, handler, handler))
        stack.push_async_callback(_close, listeners)
        for listener in listeners:
            await listener.open()
        logger.info("waiting for the name of a Lease", extra=fields(file=str(lease_file.path)))
        naming = asyncio.create_task(lease_file.named())
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait((naming, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if naming.cancel():
            return ""
        return naming.result()


async def _contend(
    config: Config,
    credentials: Credentials,
    lease_file: LeaseFile | None = None,
    stopping: asyncio.Event | None = None,
) -> int:
    """The exit status. Until SIGTERM, which sets `stopping`, or until the file names another Lease.
    Either way what is held is given up in order (P6)."""
    identity = f"{config.identity}_{uuid.uuid4()}"
    server = ApiClient(
        credentials,
        user_agent=f"elector-sidecar/{VERSION} ({identity})",
        pooled_for=min(KEPT_PERIODS * config.timing.renew_interval, POOLED_FOR),
        max_body=LONGEST_ANSWER,
    )
    async with MainContainer() as main, AsyncExitStack() as stack:
        stack.push_async_callback(server.close)
        machine, more = _machine(config, server, identity)
        program = _program(config)
        elector = Elector(
            config,
            main,
            machine,
            stop_main=_stop_main(config, main, program),
        )
        loop = asyncio.get_running_loop()

        def stop() -> None:
            if stopping is not None:
                stopping.set()
            elector.terminate()

        install_signal_handlers(loop, stop, logger=logger)
        if program is not None:
            program.install_signal_handlers(loop)
        if stopping is not None and stopping.is_set():
            elector.terminate()
        listeners = _listeners(config, elector, more)
        stack.push_async_callback(_close, listeners)
        for listener in listeners:
            await listener.open()
        _log_start(config, identity, server, listeners)
        notifiers = await _notifiers(stack, config, elector, server, main)
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(check_listener(listeners[0].bound, elector.listener_checked)),
                *(group.create_task(notifier.run()) for notifier in notifiers),
            ]
            if program is not None:
                beside.append(group.create_task(program.run(elector)))
            if lease_file is not None:
                beside.append(group.create_task(_follow(lease_file, config.lease, elector)))
            await elector.run()
            await _flush(notifiers)
            for task in beside:
                task.cancel()
    return 0 if program is None else program.exit_status


def _program(config: Config) -> "WrappedProgram | None":
    """Imported only where used."""
    if not config.program:
        return None
    from elector_sidecar.wrapped.wrapped_program import WrappedProgram, WrapPolicy

    timing = config.timing
    stop_before = config.stop_before or min(timing.validity / 3, timing.slack)
    policy = WrapPolicy(config.program, stop_before=stop_before, restart=config.restart)
    return WrappedProgram(policy, os.environ)


def _stop_main(
    config: Config, main: MainContainer, program: "WrappedProgram | None"
) -> StopMain | None:
    if program is not None:
        return program.drain
    return None if config.drain_url is None else partial(main.drain, config.drain_url)


def _machine(config: Config, server: ApiClient, identity: str) -> tuple[Machine, MakeMore | None]:
    """With what it answers beside. Shards are imported only where they are used: half a MiB."""
    at = answers_at(config)
    if config.shards is None:
        return SingleMachine(config, server, identity=identity, answers_at=at), None
    from elector_sidecar.shards.endpoints import ShardEndpoints
    from elector_sidecar.shards.machine import ShardMachine

    machine = ShardMachine(config, server, identity=identity, answers_at=at)
    return machine, partial(ShardEndpoints, machine)


async def _follow(lease_file: LeaseFile, name: str, elector: Elector) -> None:
    found = await lease_file.differs_from(name)
    logger.info(
        "the file names another Lease",
        extra=fields(file=str(lease_file.path), lease=name, now=found or lease_file.reason),
    )
    elector.terminate()


class Notifier(Protocol):
    """Tells others what happened; never on the renewal path."""

    async def run(self) -> None:
        """Until cancelled."""

    @property
    def is_flushed(self) -> bool:
        """Whether the present state has been delivered."""

    async def close(self) -> None:
        """Sends on what is still on its way."""


async def _notifiers(
    stack: AsyncExitStack, config: Config, elector: Elector, server: ApiClient, main: MainContainer
) -> list[Notifier]:
    """Imported only where used: this container is in every pod."""
    notifiers: list[Notifier] = [LeaseEvents(elector, server)]
    if config.notify_url is not None:
        from elector_sidecar.notifiers.notify_url import NotifyUrl

        notifiers.append(NotifyUrl(elector, main, config.notify_url))
    if config.leader_label is not None and config.pod_name is not None:
        from elector_sidecar.notifiers.leader_label import LeaderLabel

        key, value = config.leader_label
        notifiers.append(
            LeaderLabel(elector, server, pod_name=config.pod_name, key=key, value=value)
        )
    if config.otlp_endpoint is not None:
        try:
            from elector_sidecar.notifiers.otel import ElectorTelemetry
        except ImportError as error:
            # The variable may be meant for another container of the pod.
            logger.warning(
                "OTEL_EXPORTER_OTLP_ENDPOINT is not served", extra=fields(lack=error.msg)
            )
        else:
            telemetry = ElectorTelemetry(elector)
            stack.push_async_callback(telemetry.close)
            notifiers.append(telemetry)
    return notifiers


async def _flush(notifiers: list[Notifier]) -> None:
    """Waits until all have sent the last state, but no longer than `SHUTDOWN_GRACE`."""
    tasks = [asyncio.create_task(_flush_one(notifier)) for notifier in notifiers]
    _, late = await asyncio.wait(tasks, timeout=SHUTDOWN_GRACE)
    for task in late:
        task.cancel()


async def _flush_one(notifier: Notifier) -> None:
    for _ in range(int(SHUTDOWN_GRACE / SHUTDOWN_POLL)):
        if notifier.is_flushed:
            await notifier.close()
            return
        await asyncio.sleep(SHUTDOWN_POLL)


async def _close(listeners: list[Listener]) -> None:
    await asyncio.gather(*(listener.close() for listener in listeners))


def _listeners(config: Config, elector: Elector, more: MakeMore | None) -> list[Listener]:
    """The first one is watched: it is the one that the main asks. Others promise nothing."""
    limit = _limit(config)
    most, few = limit * 3 // 4, min(limit * 3 // 4, MAX_REMOTE_WAITS)
    pages = min(limit // PAGES_SHARE, MAX_STREAMS)
    return _bound(
        config,
        (
            ElectorEndpoints(elector, WaitLimit(most), more=more, page_streams=pages).handle,
            ElectorEndpoints(
                elector, WaitLimit(most), strangers=WaitLimit(few), promises=False
            ).handle_contrib,
            ElectorEndpoints(elector, WaitLimit(few), promises=False, more=more).handle_probe,
        ),
    )


def _bound(config: Config, handlers: tuple[Handler, Handler, Handler]) -> list[Listener]:
    """For the main, contrib's clients and probes, as far as there are such listeners."""
    limit = _limit(config)
    return [
        listening(address, handle, limit=limit, socket_mode=config.socket_mode)
        for address, handle in zip(_addresses(config), handlers, strict=True)
        if address is not None
    ]


def _limit(config: Config) -> int:
    return connection_limit(sum(address is not None for address in _addresses(config)))


def _addresses(config: Config) -> tuple[Address | None, Address | None, Address | None]:
    return config.listen, config.contrib_listen, config.probe_listen


def _log_start(config: Config, identity: str, server: ApiClient, listeners: list[Listener]) -> None:
    for warning in config.warnings:
        logger.warning(warning)
    logger.info(
        "contending",
        extra=fields(
            lease=f"{config.namespace}/{config.lease}",
            identity=identity,
            server=server.url,
            credentials=(
                f"service account {config.service_account_dir}"
                if config.kubeconfig is None
                else f"{config.kubeconfig_from} {config.kubeconfig}"
            ),
            proxy="none" if server.proxy is None else server.proxy.url,
            listen=",".join(str(listener.bound) for listener in listeners),
            lease_duration=config.timing.lease_duration,
            **config.timing.tolerances(),
        ),
    )
