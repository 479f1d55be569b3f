"""One process of the member: startup, running, shutdown, in this order.

Owns signals and exit codes. Answers on loopback and on the LAN before anything else is reached.
"""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from edge_sidecars.kubeapi import ApiClient, UnusableCredentials
from edge_sidecars.kubeapi.credentials import Plain, WatchedFiles, read_token, watched_token
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from edge_sidecars.runtime.cli.program import Program
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.process import (
    VERSION,
    freeze_gc,
    install_signal_handlers,
)
from pool_sidecar.config import PREFIX
from pool_sidecar.config.member_config import MemberConfig, load, parser
from pool_sidecar.lan.certificate import own_certificate, write_private
from pool_sidecar.lan.standstill import GapSelector, keep_waking
from pool_sidecar.lan.tls import limit_buffers
from pool_sidecar.member.announcing import announce
from pool_sidecar.member.cloud import Cloud
from pool_sidecar.member.directory import DirectoryFollower
from pool_sidecar.member.hearing_file import keep_hearing, read_hearing
from pool_sidecar.member.heartbeats import keep_lease
from pool_sidecar.member.member import Member, server_of
from pool_sidecar.member.probes import follow_elector, follow_kubelet, follow_link, local_client
from pool_sidecar.member.rounds import follow_peers
from pool_sidecar.web.member_endpoints import listening

# Seconds from the start: what was imported and loaded stays for good.
FREEZE_GC_AFTER = 5.0
TOKEN_BYTES = 32


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    program = Program(
        name="pool-sidecar",
        prefix=PREFIX,
        parser=parser,
        load=load,
        others=("NODE_NAME",),
        refusals=(UnusableCredentials,),
    )
    return program.run(arguments, environ, _run)


def _run(config: MemberConfig) -> None:
    limit_buffers()
    selector = GapSelector()
    # Not uvloop's: only this one tells of a gap before it reads.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(_serve(config, selector))


def _token(path: Path) -> WatchedFiles[str]:
    """Raises `BadInput`."""
    try:
        if not path.exists():
            write_private(path, secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        token = watched_token(path)
        token.get()
        return token
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--token-file {path}: {describe_failure(error)}; remove it, or name another file"
        ) from error


def _check_files(config: MemberConfig) -> None:
    """Those that are opened later. Raises `BadInput`."""
    path = config.relay_token_file
    if path is not None:
        try:
            read_token(path)
        except (OSError, ValueError) as error:
            why = describe_failure(error)
            raise BadInput(f"--relay-token-file {path}: {why}; name a token's file") from error
    path = config.lease_file
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise BadInput(f"--lease-file {path}: name a file in a folder that is there")


async def _serve(config: MemberConfig, selector: GapSelector) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    install_signal_handlers(loop, stopping.set, logger=logger)
    path = config.node_kubeconfig
    credentials = Kubeconfig(
        path,
        server=config.server,
        flag="--node-kubeconfig",
        proxies=config.proxies,
        verified_because="a neighbour that lends its link could read and answer what is sent",
    )
    own = own_certificate(config.data_dir, config.node)
    _check_files(config)
    member = Member(
        config,
        own,
        _token(config.token_path),
        server=server_of(credentials),
        proxy=lambda: credentials.proxy,
    )
    read_hearing(config.data_dir, member.pool.peers)
    selector.on_gap = member.stood_still
    keep_waking(loop)
    async with AsyncExitStack() as stack:
        local = listening(config.listen, member)
        await local.open()
        stack.push_async_callback(local.close)
        member.listener.open(config.lan_addresses, config.lan_port)
        stack.push_async_callback(member.listener.close)
        await member.proxy.open(config.proxy_listen)
        stack.callback(member.proxy.close)
        cloud = Cloud(member, credentials)
        token_file = config.relay_token_file
        token = None if token_file is None else watched_token(token_file)
        directory = ApiClient(
            Plain(config.relay, token),
            user_agent=f"pool-sidecar/{VERSION}",
        )
        status, kubelet = local_client(config.relay_status), local_client(config.kubelet)
        elector = None if config.elector is None else local_client(config.elector)
        stack.push_async_callback(cloud.close)
        clients = (directory, status, kubelet, elector)
        for client in (it for it in clients if it is not None):
            stack.push_async_callback(client.close)
        logger.info(
            "member of a pool",
            extra=fields(
                node=config.node,
                server=cloud.url,
                proxy="none" if cloud.proxy is None else cloud.proxy.url,
                lan=",".join(config.lan_addresses),
                port=config.lan_port,
                listen=local.bound,
                local_proxy=member.proxy.bound,
            ),
        )
        loop.call_later(FREEZE_GC_AFTER, freeze_gc)
        async with asyncio.TaskGroup() as group:
            works = [
                DirectoryFollower(member, directory, token).run(),
                follow_link(member, status),
                follow_kubelet(member, kubelet),
                follow_peers(member),
                keep_hearing(config.data_dir, member.pool.peers),
                keep_lease(member, cloud),
                announce(member, cloud),
            ]
            if elector is not None:
                works.append(follow_elector(member, elector))
            tasks = [group.create_task(work) for work in works]
            await stopping.wait()
            for task in tasks:
                task.cancel()
