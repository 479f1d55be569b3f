"""One process of the sidecar: startup, running, shutdown, in this order.

Owns signals and exit codes. Answers before the first contact with upstream, from what was kept.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from edge_sidecars.kubeapi import Credentials, UnusableCredentials, pod_credentials
from edge_sidecars.runtime.cli.program import Program
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.process import (
    freeze_gc,
    install_signal_handlers,
    raise_descriptor_limit,
    release_free_memory,
    set_malloc_thresholds,
)
from edge_sidecars.runtime.systemd import feed_watchdog, notify
from edge_sidecars.runtime.tasks import Spawn, Tasks
from edge_sidecars.runtime.web.listener import Listener
from relay_sidecar.config import PREFIX
from relay_sidecar.config.config import Config, load, parser
from relay_sidecar.web.listener import (
    OWN,
    OwnEndpoints,
    ServingCertificate,
    connection_limit,
    listening,
)
from relay_sidecar.wiring.relay import Relay, open_relay

# Seconds from the first answer: what was imported and loaded stays for good.
FREEZE_GC_AFTER = 2.0
# Descriptors for kubelet, Prometheus and people.
STATUS_CONNECTIONS = 64


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    program = Program(
        name="relay-sidecar",
        prefix=PREFIX,
        parser=parser,
        load=load,
        refusals=(UnusableCredentials,),
    )
    return program.run(arguments, environ, lambda config: uvloop.run(_serve(config, environ)))


async def _serve(config: Config, environ: Mapping[str, str]) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.set_exception_handler(_unforeseen)
    install_signal_handlers(loop, stopping.set, logger=logger)
    async with AsyncExitStack() as stack:
        credentials = _credentials(config)
        # Lists of many megabytes come and go.
        set_malloc_thresholds()
        descriptors = raise_descriptor_limit()
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group)
            relay = await open_relay(config, credentials, stack, spawn=tasks.spawn)
            api, own, *rest = _listeners(config, relay, descriptors)
            listeners = [api, own, *rest]
            for listener in listeners:
                await listener.open()
                stack.push_async_callback(listener.close)
            relay.start()
            _say_hello(config, relay, api, own)
            notify(environ, "READY=1")
            tasks.spawn(feed_watchdog(environ))
            if config.otlp_endpoint is not None:
                _export(relay, config, stack, tasks.spawn)
            loop.call_later(FREEZE_GC_AFTER, _settle)
            await stopping.wait()
            notify(environ, "STOPPING=1")
            # Clients first: what they have asked for may still be answered.
            for listener in listeners:
                await listener.close()
            tasks.cancel()


def _listeners(config: Config, relay: Relay, descriptors: int) -> list[Listener]:
    """That of the API, the relay's own, and those of pods and of optional rooms."""
    tls = _tls(config, config.client_ca_file)
    # Each may be used up by its own clients, never by those of another.
    parts = 1 + (config.pod_listen is not None) + sum(not it.connections for it in relay.listeners)
    others = STATUS_CONNECTIONS + sum(it.connections for it in relay.listeners)
    wanted = 2 * config.max_watchers
    limit = connection_limit(descriptors // parts, wanted=wanted, others=others // parts)
    served = partial(listening, write_timeout=config.write_timeout)
    found = [
        served(config.listen, relay.api.handle, limit=limit, tls=tls),
        served(
            config.status_listen,
            OwnEndpoints(relay.report).handle,
            limit=STATUS_CONNECTIONS,
            options=OWN,
        ),
    ]
    if config.pod_listen is not None:
        pods_tls = _tls(config, None)
        found.append(served(config.pod_listen, relay.api.handle, limit=limit, tls=pods_tls))
    for it in relay.listeners:
        own_tls = None if it.connections else tls
        found.append(served(it.address, it.handle, limit=it.connections or limit, tls=own_tls))
    return found


def _settle() -> None:
    """What was imported and loaded stays; what the start has freed goes."""
    freeze_gc()
    release_free_memory()


def _export(relay: Relay, config: Config, stack: AsyncExitStack, spawn: Spawn) -> None:
    """Metrics and spans, over OTLP."""
    try:
        from relay_sidecar.telemetry.otel import RelayTelemetry
    except ImportError as error:
        # The variable may be meant for another container of the pod.
        logger.warning("OTEL_EXPORTER_OTLP_ENDPOINT is not served", extra=fields(lack=error.msg))
        return
    telemetry = RelayTelemetry(relay.report, namespace=config.namespace)
    stack.push_async_callback(telemetry.close)
    spawn(telemetry.run())


def _credentials(config: Config) -> Credentials:
    """Raises `UnusableCredentials`, or `BadInput` where callers' tokens would be readable."""
    if config.kubeconfig is not None:
        from edge_sidecars.kubeapi.kubeconfig import Kubeconfig

        credentials = Kubeconfig(
            config.kubeconfig,
            server=config.server,
            context=config.context,
            proxies=config.proxies,
            verified_because=""
            if config.pool is None
            else "with --pool, a neighbour that lends its link could read and answer what is sent",
        )
        config.check_upstream(credentials.server)
        return credentials
    if config.client_certificate is not None:
        from edge_sidecars.kubeapi.client_certificate import ClientCertificate

        return ClientCertificate(
            config.server or "",
            certificate=config.client_certificate,
            key=config.client_key,
            authorities=config.certificate_authority,
            tls_server_name=config.tls_server_name,
            proxies=config.proxies,
        )
    return pod_credentials(config.server, config.service_account_dir, config.proxies)


def _tls(config: Config, client_ca_file: Path | None) -> ssl.SSLContext | None:
    if config.tls_cert_file is None or config.tls_private_key_file is None:
        return None
    return ServingCertificate(
        config.tls_cert_file, config.tls_private_key_file, client_ca_file
    ).context


def _unforeseen(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """uvloop's TLS calls it fatal that it wants to write to a connection which has just been lost
    (sslproto.pyx, _process_outgoing); the connection's owner hears of its end all the same.
    One whose handshake was given up meanwhile does not even say that it is closing (loop.pyx,
    create_connection).
    """
    transport: asyncio.BaseTransport | None = context.get("transport")
    error = context.get("exception")
    is_of_tls = context.get("message") == "Fatal error on SSL protocol"
    is_given_up = isinstance(error, RuntimeError) and "the handler is closed" in str(error)
    if is_of_tls and (is_given_up or (transport is not None and transport.is_closing())):
        logger.debug("connection lost", extra=fields(why=error))
        return
    loop.default_exception_handler(context)


def _say_hello(config: Config, relay: Relay, api: Listener, own: Listener) -> None:
    for warning in config.warnings:
        logger.warning(warning)
    note = relay.report.status().journal.note
    if note:
        logger.warning("data was set aside", extra=fields(why=note))
    logger.info(
        "relaying",
        extra=fields(
            server=relay.report.status().link.server,
            proxy=relay.report.status().link.proxy or "none",
            listen=api.bound,
            status=own.bound,
            data=config.data_dir or "memory",
            access="caller" if config.asks_callers else "own",
        ),
    )
