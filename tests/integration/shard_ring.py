"""Electors with `--shards` as their mains see them, without an election: a test says who owns what.

Real HTTP servers, one port for each member, with the documents, hand-overs and answers that an
elector gives: a shard that moves is answered as handed over until the main has confirmed, or until
every validity that its owner was told has passed; each ownership has a token of its own. Strict: a
request that an elector does not know is kept in `unexpected`, which the fixture asserts to be
empty. Serves from a thread of its own while it is entered.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from aiohttp import web

from edge_sidecars.leader_client import Shard, shard_of
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.settling import end

CALL_TIMEOUT = 10.0
# Seconds; an elector's.
HEARTBEAT = 1.0

T = TypeVar("T")


@dataclass
class _Owned:
    """`next`: who gets it once the hand-over is over; None: it is not handed over."""

    owner: str
    token: str
    since: float
    next: str | None = None


@dataclass
class _Member:
    name: str
    runner: web.ServerRunner
    port: int
    is_alive: bool = True
    is_silent: bool = False
    # The latest validity that it told.
    told_until: float = 0.0
    streams: set[asyncio.Event] = field(default_factory=set)


class ShardRing:
    """`validity`: seconds for which a document proves ownership."""

    def __init__(self, *, shards: int = 64, validity: float = 10.0) -> None:
        self.shards = shards
        self.unexpected: list[str] = []
        # In the order in which they came: member, shard, token.
        self.released: list[tuple[str, int, str]] = []
        self._validity = validity
        self._token = 100
        self._members: dict[str, _Member] = {}
        self._table: dict[int, _Owned] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="shard-ring")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CALL_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ── what a test says ──

    def join(self, *names: str) -> None:
        """Members without shards, each on a port of its own."""
        for name in names:
            asyncio.run_coroutine_threadsafe(self._open(name), self._loop).result(CALL_TIMEOUT)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._members[name].port}"

    def give(self, name: str | None, shards: Iterable[int]) -> None:
        """These go to the member, or to nobody, by hand-over where somebody owns them."""

        def give() -> None:
            for number in shards:
                self._move(number, name or "")
            self._tell()

        self._call(give)

    def balance(self) -> None:
        """Shares that differ by one at most, among the living, with as few moves as that needs."""

        def balance() -> None:
            living = sorted(it.name for it in self._members.values() if it.is_alive)
            for number, name in self._moves(living):
                self._move(number, name)
            self._tell()

        self._call(balance)

    def restart(self, name: str) -> None:
        """The member's term ends and a new one begins: the same shards with other tokens."""

        def restart() -> None:
            for number, it in list(self._table.items()):
                if it.owner == name:
                    self._table[number] = self._owned(name)
            self._tell()

        self._call(restart)

    def kill(self, name: str) -> None:
        """The member answers nobody any more; what it owns is free when its validity has passed."""
        member = self._members[name]
        asyncio.run_coroutine_threadsafe(self._kill(member), self._loop).result(CALL_TIMEOUT)

    def silence(self, name: str, *, is_silent: bool = True) -> None:
        """Streams stay open and hear nothing."""

        def silence() -> None:
            self._members[name].is_silent = is_silent
            self._tell()

        self._call(silence)

    def owners(self) -> Mapping[int, str]:
        """By shard; those that are handed over too."""
        return self._call(lambda: {number: it.owner for number, it in self._table.items()})

    def handing_over(self) -> list[int]:
        return self._call(lambda: [n for n, it in self._table.items() if it.next is not None])

    def owner_of(self, uid: str) -> str:
        """ "" where nobody owns it."""
        return self.owners().get(shard_of(uid, self.shards), "")

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(CALL_TIMEOUT)

    # ── the table, in its own thread ──

    def _move(self, number: int, name: str) -> None:
        it = self._table.get(number)
        if it is None:
            if name:
                self._table[number] = self._owned(name)
        elif it.next is not None:
            it.next = name
        elif it.owner != name:
            it.next = name
            member = self._members[it.owner]
            wait = max(member.told_until - boottime(), 0.0)
            self._loop.call_later(wait, self._pass_on, number, it)

    def _pass_on(self, number: int, it: _Owned) -> None:
        """The hand-over is over."""
        if self._table.get(number) is not it or it.next is None:
            return
        del self._table[number]
        if it.next:
            self._table[number] = self._owned(it.next)
        self._tell()

    def _owned(self, name: str) -> _Owned:
        self._token += 1
        return _Owned(name, str(self._token), boottime())

    def _moves(self, living: list[str]) -> list[tuple[int, str]]:
        going = {n: it.owner if it.next is None else it.next for n, it in self._table.items()}
        shares = {name: [n for n in going if going[n] == name] for name in living}
        free = [n for n in range(self.shards) if going.get(n) not in shares]
        by_share = sorted(living, key=lambda name: (-len(shares[name]), name))
        quota = {
            name: self.shards // len(living) + (index < self.shards % len(living))
            for index, name in enumerate(by_share)
        }
        for name in living:
            free += shares[name][quota[name] :]
        return [
            (free.pop(), name)
            for name in living
            for _ in range(max(quota[name] - len(shares[name]), 0))
        ]

    # ── HTTP, in its own thread ──

    async def _open(self, name: str) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self._handle(self._members[name], request)

        runner = web.ServerRunner(
            web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1
        )
        await runner.setup()
        known = self._members.get(name)
        site = web.TCPSite(runner, "127.0.0.1", 0 if known is None else known.port)
        await site.start()
        self._members[name] = _Member(name, runner, runner.addresses[0][1])

    async def _kill(self, member: _Member) -> None:
        member.is_alive = False
        await end(member.runner)
        for number, it in list(self._table.items()):
            if it.owner == member.name and it.next is None:
                self._move(number, "")

    async def _close(self) -> None:
        for member in self._members.values():
            if member.is_alive:
                await end(member.runner)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, member: _Member, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        match request.method, parts:
            case "GET", ["shards"] if request.query.get("watch") == "true":
                return await self._stream(member, request)
            case "GET", ["shards"]:
                return web.json_response(self._document(member))
            case "GET", ["owns"]:
                return self._owns(member, request)
            case "POST", ["shards", number, "released"] if number.isdecimal():
                return self._released(member, int(number), request.query.get("token", ""))
        self.unexpected.append(f"{request.method} {request.path_qs}")
        return web.Response(status=404, text="no elector has this")

    async def _stream(self, member: _Member, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        news = asyncio.Event()
        member.streams.add(news)
        try:
            await response.prepare(request)
            while True:
                news.clear()
                if not member.is_silent:
                    await response.write(json.dumps(self._document(member)).encode() + b"\n")
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await news.wait()
                except TimeoutError:
                    continue
        except ConnectionResetError:
            return response
        finally:
            member.streams.discard(news)

    def _owns(self, member: _Member, request: web.BaseRequest) -> web.Response:
        query = request.query
        if ("uid" in query) == ("shard" in query):
            return web.Response(status=400, text="name uid or shard")
        number = shard_of(query["uid"], self.shards) if "uid" in query else int(query["shard"])
        it = self._table.get(number)
        if it is not None and it.owner == member.name and it.next is None:
            return web.Response(text="yes")
        owner = "" if it is None else it.owner
        answer = {"shard": number, "ownerPod": owner, "reason": "not this member's"}
        return web.json_response(answer, status=503)

    def _released(self, member: _Member, number: int, token: str) -> web.Response:
        if number >= self.shards:
            return web.Response(status=404, text="no such shard")
        it = self._table.get(number)
        if it is None or it.owner != member.name or it.token != token:
            return web.Response(text="over")
        if it.next is None:
            return web.Response(status=409, text="owned, and not being handed over")
        self.released.append((member.name, number, token))
        self._pass_on(number, it)
        return web.Response(text="released")

    def _tell(self) -> None:
        for member in self._members.values():
            for news in member.streams:
                news.set()

    def _document(self, member: _Member) -> dict[str, Any]:
        mine = {n: it for n, it in sorted(self._table.items()) if it.owner == member.name}
        owned = [self._entry(n, it) for n, it in mine.items() if it.next is None]
        if owned:
            member.told_until = boottime() + self._validity
        return {
            "shards": self.shards,
            "owned": owned,
            "handingOver": [self._entry(n, it) for n, it in mine.items() if it.next is not None],
            "selector": _selector(owned) if owned else None,
            "validUntil": member.told_until if owned else None,
            "remainingSeconds": self._validity if owned else 0.0,
            "identity": f"{member.name}_1",
            "members": [self._described(it) for it in self._members.values() if it.is_alive],
            "unowned": self.shards - len(self._table),
            "reason": f"owns {len(owned)} of {self.shards} shards",
        }

    def _entry(self, number: int, it: _Owned) -> dict[str, Any]:
        bounds = [f"0x{bound:016x}" for bound in Shard(number, self.shards, it.token).range]
        return {
            "shard": number,
            "range": bounds,
            "fencingToken": it.token,
            "ownedSeconds": boottime() - it.since,
        }

    def _described(self, member: _Member) -> dict[str, Any]:
        owned = sum(it.owner == member.name for it in self._table.values())
        return {
            "identity": f"{member.name}_1",
            "pod": member.name,
            "owned": owned,
            "settled": True,
        }


def _selector(owned: list[dict[str, Any]]) -> str:
    """Adjacent ranges as one."""
    merged: list[list[str]] = []
    for low, high in (it["range"] for it in owned):
        if merged and merged[-1][1] == low:
            merged[-1][1] = high
        else:
            merged.append([low, high])
    return " || ".join(f"shardRange(object.metadata.uid,'{low}','{high}')" for low, high in merged)
