"""What systemd wants to hear of a service: that it serves, that it is alive, that it stops.

sd_notify(3). Guarantee: without systemd nothing is done; a message that cannot be sent is no error
of ours: systemd's own time-outs say what follows.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress


def notify(environ: Mapping[str, str], state: str) -> None:
    """`state`: `READY=1`, `STOPPING=1` or `WATCHDOG=1`."""
    address = environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    # "@": a name in the abstract namespace, unix(7).
    target = "\0" + address[1:] if address.startswith("@") else address
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
    with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sock:
        sock.sendto(state.encode(), target)


async def feed_watchdog(environ: Mapping[str, str]) -> None:
    """Until it is cancelled, from the event loop: one that hangs falls silent. Twice in the time
    that systemd waits; returns at once where it does not wait for this process."""
    text, wanted = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
    if not text.isdecimal() or int(text) == 0 or wanted not in (None, str(os.getpid())):
        return
    while True:
        notify(environ, "WATCHDOG=1")
        await asyncio.sleep(int(text) / 1e6 / 2)
