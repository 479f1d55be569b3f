"""The elector's sockets: how many connections they hold, and the proof that they answer.

Guarantee: clients of the HTTP API can never use up the file descriptors that renewals need; an
elector whose own listener does not answer resigns (P9), because no client could read its 503.
"""

import asyncio
import os
from collections import deque
from typing import Protocol

from edge_sidecars.runtime.web import listener
from edge_sidecars.runtime.web.connections import Handler
from elector_sidecar.config.config import Address

# More than any pod's containers, probes and scrapers open; each costs a descriptor and some KiB.
MAX_CONNECTIONS = 512
# Kept for the API server, the main, files and the runtime itself.
RESERVED_DESCRIPTORS = 64
# asyncio accepts so many at once, before the first of them can be refused or take a place.
BACKLOG = 16
# So many more wait in the kernel, which costs no descriptor, instead of for a repeated SYN.
QUEUE = 128
# Such bursts in descriptors: one accepted, one taking places, one whose places are being closed.
BURSTS = 3
MIN_CONNECTIONS = 8
_OPTIONS = listener.ListenerOptions(
    log="elector.http",
    backlog=BACKLOG,
    queue=QUEUE,
    shutdown_grace=0.1,
    # A client that left is not waited for any more: its handler would keep its place.
    ends_with_client=True,
    guards=True,
)

CHECK_INTERVAL = 5.0
# An answer that comes later is as good as none for the lead: mains ask with a deadline, too.
CHECK_TIMEOUT = 1.0
# One check may lose against a busy machine.
CHECK_FAILURES = 3
# An answer that comes within this is late: the process is starved, and another would be as well.
LATE_TIMEOUT = 10.0
# Seconds without any answer after which the process ends. The lead is given up long before.
UNRESPONSIVE_LIMIT = 30.0


class ListenerUnresponsive(Exception):
    """The listener cannot be reached any more; the message names its address."""


def listening(
    address: Address, handler: Handler, *, limit: int, socket_mode: int
) -> listener.Listener:
    return listener.Listener(
        address, handler, options=_OPTIONS, limit=limit, socket_mode=socket_mode
    )


def connection_limit(listeners: int) -> int:
    """For each of so many listeners, which share this process' descriptors."""
    return listener.connection_limit(
        listeners,
        most=MAX_CONNECTIONS,
        least=MIN_CONNECTIONS,
        reserved=RESERVED_DESCRIPTORS,
        spare=BURSTS * BACKLOG,
    )


class ListenerReport(Protocol):
    def __call__(self, *, is_alive: bool) -> None: ...


async def check_listener(bound: Address, report: ListenerReport) -> None:
    """Tells `report` after each check whether the listener there is to be believed alive.

    Raises `ListenerUnresponsive` when it stays dead: a new process may get what this one cannot.
    """
    failures = 0
    place = _place(bound)
    checks: deque[asyncio.Task[bool]] = deque()
    while not _are_deaf(checks):
        await asyncio.sleep(CHECK_INTERVAL)
        # Another socket under its name would answer for somebody else.
        is_ours = place == _place(bound)
        check = asyncio.create_task(_is_answered(bound.dialled if is_ours else None))
        checks.append(check)
        await asyncio.wait({check}, timeout=CHECK_TIMEOUT)
        is_alive = check.done() and check.result()
        failures = 0 if is_alive else failures + 1
        report(is_alive=failures < CHECK_FAILURES)
    raise ListenerUnresponsive(
        f"{bound} has not answered for {UNRESPONSIVE_LIMIT:g}s, so the lead was given up; "
        "ending, to be restarted"
    )


def _place(address: Address) -> tuple[int, int] | None:
    """Of a unix socket in the file system; None where it is not there, or has no path."""
    try:
        found = os.stat(address.path) if address.path else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def _are_deaf(checks: deque[asyncio.Task[bool]]) -> bool:
    """Whether none of the last ones had an answer, however late. Forgets those before."""
    while len(checks) * CHECK_INTERVAL > UNRESPONSIVE_LIMIT + LATE_TIMEOUT:
        checks.popleft()
    over = [check.result() for check in checks if check.done()]
    return len(over) * CHECK_INTERVAL >= UNRESPONSIVE_LIMIT and not any(over)


async def _is_answered(address: Address | None) -> bool:
    """Whether a request over a new connection gets any HTTP answer, though it be late; None: there
    is nowhere to ask."""
    if address is None:
        return False
    try:
        async with asyncio.timeout(LATE_TIMEOUT):
            return await _answers(address)
    except (OSError, TimeoutError):
        return False


async def _answers(address: Address) -> bool:
    if address.path:
        reader, writer = await asyncio.open_unix_connection(address.path)
    else:
        reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return (await reader.readline()).startswith(b"HTTP/1.")
    finally:
        writer.close()
