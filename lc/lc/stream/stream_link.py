"""LC's gRPC stream to GM: objects into the store, reports out of it.

Owns dialling and redialling, for as long as it takes. Guarantees: What GM says takes effect in its
order and ends the stream where the disk does not take it, so that the next snapshot brings it
again. Reports leave the store only when GM answered. A GM that is silent or half gone is left
within ten seconds (keepalive, and the first message's time-out). Every dial is a connection of its
own, with certificates and token as they are now.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import grpc
import grpc.aio
import msgspec

from edge_sidecars.runtime.cli.proxies import NO_PROXIES, HttpProxy, ProxyVariables
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.stream_codec import KEEPALIVE, MAX_TO_NODE, METHOD
from lc.core.dial_policy import DialPolicy
from lc.link import GmLinkStatus
from lc.store import Change, Store
from lc.stream.stream_session import StreamEnded, StreamSession

# Seconds from dialling to the first message; GM lets an LC wait 5 s for its own watch.
FIRST_MESSAGE_TIMEOUT: Final = 10.0
# A Service without an address of its own names all GMs: each LC begins anywhere.
_SERVICE_CONFIG: Final = {"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": True}}]}
OPTIONS: Final = (
    *KEEPALIVE,
    ("grpc.max_receive_message_length", MAX_TO_NODE),
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    # Redialling is ours: no retries, and no back-off that an earlier channel has run up.
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
# gRPC would read the variables itself, other ones than Go's and only some of them.
_DIRECT: Final = ("grpc.enable_http_proxy", 0)

Call: TypeAlias = "grpc.aio.StreamStreamCall[bytes, bytes]"


class ClientTls(msgspec.Struct, frozen=True):
    """PEM files. `authority` None: the system's; certificate and key come together."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Raises `OSError`."""
        authority, key, certificate = (
            None if path is None else path.read_bytes()
            for path in (self.authority, self.key, self.certificate)
        )
        return grpc.ssl_channel_credentials(authority, key, certificate)


def gm_proxy(address: str, proxies: ProxyVariables) -> HttpProxy | None:
    """Raises `BadInput`. As grpc-go has it: HTTPS_PROXY, also where the stream has no TLS, since
    the proxy passes bytes on either way."""
    found = proxies.proxy_for(f"https://{address}")
    if found is not None and not found.url.startswith("http:"):
        raise BadInput(
            f"{proxies.https[0]} {found.url}: gRPC speaks to http:// proxies only: name one, or "
            f"put {address} into NO_PROXY"
        )
    return found


def proxy_options(proxy: HttpProxy | None) -> tuple[tuple[str, str | int], ...]:
    """Of a channel; gRPC wants user and password in the URL."""
    if proxy is None:
        return (_DIRECT,)
    user = base64.b64decode(proxy.authorization.removeprefix("Basic ")).decode()
    name, colon, password = user.partition(":")
    user = f"{quote(name, safe='')}:{quote(password, safe='')}@" if colon else ""
    return (("grpc.http_proxy", f"http://{user}{proxy.url.removeprefix('http://')}"),)


class StreamLink:
    """`addresses`: GMs, host:port. `token_file` needs `tls`: a token is not sent in the clear.
    Raises `BadInput` for `proxies` that cannot be used."""

    def __init__(
        self,
        store: Store,
        *,
        node: str,
        addresses: Sequence[str],
        version: str,
        redial_cap: float,
        tls: ClientTls | None = None,
        token_file: Path | None = None,
        proxies: ProxyVariables = NO_PROXIES,
    ) -> None:
        if token_file is not None and tls is None:
            raise ValueError(f"{token_file}: a token needs TLS")
        self._store = store
        self._node = node
        self._version = version
        self._tls = tls
        self._token_file = token_file
        # By address, of those that are reached through one.
        self._proxies = {it: proxy for it in addresses if (proxy := gm_proxy(it, proxies))}
        self._dial_policy = DialPolicy(addresses, longest=redial_cap)
        self._session: StreamSession | None = None
        self._peer = ""
        self._problem = "not connected yet"
        self._changed_at = boottime()

    def status(self) -> GmLinkStatus:
        session = self._session
        is_up = session is not None and session.served_since is not None
        since = session.served_since if session and session.served_since else self._changed_at
        return GmLinkStatus(is_up, self._peer, since, "" if is_up else self._problem)

    async def run(self) -> None:
        """Until cancelled."""
        self._store.subscribe(self)
        try:
            while True:
                self._peer = self._dial_policy.address(random.random())
                ended = await self._dial(self._peer)
                delay = self._left(ended)
                await asyncio.sleep(delay)
        finally:
            self._store.unsubscribe(self)

    # The store's listener

    def report_enqueued(self, report: Report) -> None:
        if self._session is not None:
            self._session.wake()

    def object_changed(self, document: Document, change: Change) -> None:
        """What this link itself has put."""

    def object_gone(self, document: Document) -> None:
        """What this link itself has removed."""

    # Inside

    def _left(self, ended: StreamEnded) -> float:
        delay = self._dial_policy.ended(
            served_for=ended.served_for, is_drained=ended.is_drained, chance=random.random()
        )
        details = fields(gm=self._peer, why=ended.reason, delay=round(delay, 3))
        if ended.is_drained:
            logger.info("GM sends this LC elsewhere", extra=details)
        elif ended.served_for is not None or ended.reason != self._problem:
            logger.warning("no GM", extra=details)
        else:
            logger.debug("no GM", extra=details)
        if ended.served_for is not None:
            self._changed_at = boottime()
        self._problem = ended.reason
        return delay

    async def _dial(self, address: str) -> StreamEnded:
        try:
            credentials = None if self._tls is None else self._tls.credentials()
            metadata = self._metadata()
        except OSError as error:
            return StreamEnded(f"{error.filename}: {error.strerror}")
        proxy = self._proxies.get(address)
        options = (*OPTIONS, *proxy_options(proxy))
        channel = (
            grpc.aio.insecure_channel(address, options=options)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options=options)
        )
        session = StreamSession(self._store, peer=address, paced=self._dial_policy.paced)
        self._session = session
        try:
            method: Any = channel.stream_stream(METHOD)
            call: Call = method(metadata=metadata)
            ended = await session.run(
                call, node=self._node, version=self._version, patience=FIRST_MESSAGE_TIMEOUT
            )
            if proxy is None or ended.is_drained:
                return ended
            why = f"{ended.reason} (through the proxy {proxy.url})"
            return msgspec.structs.replace(ended, reason=why)
        finally:
            self._session = None
            await channel.close()

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Raises `OSError`."""
        if self._token_file is None:
            return ()
        return (("authorization", f"Bearer {self._token_file.read_text().strip()}"),)
