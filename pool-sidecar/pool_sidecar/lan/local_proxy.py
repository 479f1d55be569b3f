"""For processes of this node: CONNECT, their way to the API server over a lent link, and GET
/relay/PEER/..., which reads the relay of a peer, or the one of this node that peers read.

Guarantees: Only who knows the token gets through, and only to this node's API server or to what a
peer's relay shows. What goes to the API server is TLS between the client and it, of which neither
this process nor a lender sees more than sizes and times. A tunnel ends as soon as its lender is no
longer the one of now, but for some seconds in which it may end in order where the own link is back.
A lender that gives no more connections keeps those that it gave (429); where this process itself
wants one, for the heartbeat, the newest of the others makes room. Processes without the token take
no place from those with it.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final

from edge_sidecars.kubeapi.aiohttp_private import abort
from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.cli.values import Address, BadInput, describe_failure
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.formats.bearer import authorizes
from pool_sidecar.lan.client import NoAnswer, PeerClient, Refused
from pool_sidecar.lan.http_head import MAX_HEAD, BadHead, Head, answer, read_head, refusal
from pool_sidecar.lan.relay_reader import PREFIX, RELAY, RelayRead
from pool_sidecar.lan.tunnel import Stream, Tunnel, Tunnels

# Clients of one node, with the token: its relays' streams and writes. More are 429. So many that
# the lender's --lend-connections is what counts, also where it is raised.
MAX_CONNECTIONS: Final = 256
# Of those that have shown no token yet; more than asyncio accepts at once.
MAX_UNPROVEN: Final = 256
# Seconds for which a lender that had no connection left is not asked again by those who follow.
FULL_FOR: Final = 1.0
# Seconds for a head.
PATIENCE: Final = 5.0
# Seconds for a connection on this machine.
DIAL: Final = 5.0
# Seconds for which tunnels outlast the return of the own link: writes end, and streams move.
RETIRE_AFTER: Final = 5.0
# Lenders that are asked for one tunnel.
ATTEMPTS: Final = 3
AUTHORIZATION: Final = "proxy-authorization"
# Of a read of a peer's relay, which is for this process itself.
READ_AUTHORIZATION: Final = "authorization"


class LocalProxy:
    """`servers`: hosts and ports, each of which means this node's API server. `lender()`: whom to
    borrow from now, None where there is none; `failed` is called with one that did not lend.
    `peer(name)`: another member of the pool. `node`: this one; `relay`: host and port of what its
    relay shows."""

    def __init__(
        self,
        token: WatchedFiles[str],
        servers: Collection[tuple[str, str]],
        *,
        lender: Callable[[], PeerClient | None],
        failed: Callable[[str], None],
        peer: Callable[[str], PeerClient | None],
        node: str,
        relay: tuple[str, int],
    ) -> None:
        self._token = token
        # Of this process alone.
        self.own_token = secrets.token_urlsafe()
        self._servers = servers
        self._lender = lender
        self._failed = failed
        self._peer = peer
        self._node, self._relay = node, relay
        self._readers = Tunnels()
        self._own, self._guests = Tunnels(), Tunnels()
        # Of clients with the token; and of all that have not shown one, the oldest first.
        self._open = 0
        self._unproven: dict[asyncio.WriteTransport, None] = {}
        self._full_until = 0.0
        self._serving: asyncio.Server | None = None
        self.bound: Address | None = None

    async def open(self, address: Address) -> None:
        """Raises `BadInput`."""
        try:
            self._serving = await asyncio.start_server(
                self._serve, address.host, address.port, limit=MAX_HEAD
            )
        except OSError as error:
            raise BadInput(
                f"cannot listen on {address}: {describe_failure(error)}; name another "
                "--proxy-listen"
            ) from error
        self.bound = Address(address.host, self._serving.sockets[0].getsockname()[1])

    def reset_all(self, *, unless: str = "") -> None:
        """Ends the tunnels over all lenders but one."""
        for tunnels in (self._own, self._guests):
            tunnels.reset_all(unless=lambda name: name == unless)

    def keep_readers(self, is_peer: Callable[[str], bool]) -> None:
        """Ends the reads of all others, but for those of this node's own relay."""
        self._readers.reset_all(unless=lambda name: name == self._node or is_peer(name))

    def retire(self) -> None:
        """The own link is back, while the lender still lends: what is under way ends in order, or
        in some seconds."""
        asyncio.get_running_loop().call_later(RETIRE_AFTER, self._reset_others)

    def _reset_others(self) -> None:
        lender = self._lender()
        self.reset_all(unless="" if lender is None else lender.peer.name)

    def close(self) -> None:
        self.reset_all()
        self._readers.reset_all()
        if self._serving is not None:
            self._serving.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._unproven) >= MAX_UNPROVEN:
            # A client with a token sends it at once: the oldest has none.
            oldest = next(iter(self._unproven))
            del self._unproven[oldest]
            abort(oldest)
        self._unproven[writer.transport] = None
        try:
            near = Stream(reader, writer)
            async with asyncio.timeout(PATIENCE):
                head = await read_head(reader)
            if head is not None:
                await self._answer(near, head)
            await writer.drain()
            writer.close()
        except (BadHead, OSError, TimeoutError):
            abort(writer.transport)  # Its client's fault, or its end.
        finally:
            self._unproven.pop(writer.transport, None)
            writer.close()

    async def _answer(self, near: Stream, head: Head) -> None:
        method, target, _ = head.first
        if method == "GET" and target.startswith(PREFIX):
            await self._answer_read(near, head)
            return
        host, _, port = target.rpartition(":")
        given = head.headers.get(AUTHORIZATION)
        is_own = authorizes(given, self.own_token)
        if not is_own and not authorizes(given, self._token.get()):
            why = "Proxy-Authorization lacks the token of --token-file"
            near.writer.write(refusal(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, why))
        elif method != "CONNECT" or (host.strip("[]").lower(), port) not in self._servers:
            servers = ", ".join(f"{it[0]}:{it[1]}" for it in sorted(self._servers))
            why = f"tunnels lead to this node's API server only: {servers}"
            near.writer.write(refusal(HTTPStatus.FORBIDDEN, why))
        elif not is_own and (self._open >= MAX_CONNECTIONS or boottime() < self._full_until):
            near.writer.write(refusal(HTTPStatus.TOO_MANY_REQUESTS, "no connection is left"))
        else:
            self._unproven.pop(near.writer.transport, None)
            self._open += not is_own
            try:
                await self._borrow(near, is_own=is_own)
            finally:
                self._open -= not is_own

    async def _answer_read(self, near: Stream, head: Head) -> None:
        read = RelayRead.of(head)
        asked = None if read is None else read.to_peer()
        if not authorizes(head.headers.get(READ_AUTHORIZATION), self._token.get()):
            why = "Authorization lacks the token of --token-file"
            near.writer.write(refusal(HTTPStatus.UNAUTHORIZED, why))
            return
        if asked is None:
            why = f"a peer's relay is read by GET {PREFIX}PEER/PATH"
            near.writer.write(refusal(HTTPStatus.FORBIDDEN, why))
            return
        if self._open >= MAX_CONNECTIONS:
            near.writer.write(refusal(HTTPStatus.TOO_MANY_REQUESTS, "no connection is left"))
            return
        self._unproven.pop(near.writer.transport, None)
        self._open += 1
        try:
            name, wanted = asked
            await (self._read_own(near, wanted) if name == self._node else self._read(near, *asked))
        finally:
            self._open -= 1

    async def _read_own(self, near: Stream, read: RelayRead) -> None:
        try:
            async with asyncio.timeout(DIAL):
                relay = Stream(*await asyncio.open_connection(*self._relay))
        except (OSError, TimeoutError):
            why = "the relay that shows the pool's streams is out of reach"
            near.writer.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, why))
            return
        relay.writer.write(read.encode(host=self._relay[0], token=self._token.get()))
        await self._readers.run(Tunnel(self._node, near, relay))

    async def _read(self, near: Stream, name: str, read: RelayRead) -> None:
        client = self._peer(name)
        why = f"{name:.253} is no member of this pool"
        if client is not None:
            try:
                far = await client.tunnel(RELAY)
            except (NoAnswer, Refused) as error:
                why = f"{name} does not show its relay: {error}"
            else:
                if self._peer(name) is client:
                    far.writer.write(read.encode(host=RELAY))
                    await self._readers.run(Tunnel(name, near, far))
                    return
                far.reset()
        near.writer.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, why))

    async def _borrow(self, near: Stream, *, is_own: bool) -> None:
        status, why = HTTPStatus.SERVICE_UNAVAILABLE, "no neighbour lends its link"
        for _ in range(ATTEMPTS):
            client = self._lender()
            if client is None:
                break
            name = client.peer.name
            try:
                far = await client.tunnel()
            except (NoAnswer, Refused) as error:
                is_used_up = isinstance(error, Refused) and error.is_full and self._uses(name)
                if not is_used_up:
                    self._failed(name)
                elif not (is_own and self._guests.reset_newest(name)):
                    status = HTTPStatus.TOO_MANY_REQUESTS
                    self._full_until = boottime() + FULL_FOR
                    why = f"{name} lends no more connections"
                    break
                continue
            if self._lender() is not client:
                far.reset()  # It is another one by now.
                continue
            near.writer.write(answer(HTTPStatus.OK))
            await (self._own if is_own else self._guests).run(Tunnel(name, near, far))
            return
        near.writer.write(refusal(status, why))

    def _uses(self, name: str) -> bool:
        """Whether bytes pass over that lender: its limit is reached by this node itself."""
        return name in self._own.names | self._guests.names
