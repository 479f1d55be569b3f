"""What systemd wants to hear of a service: that it serves, that it is alive, that it stops.

sd_notify(3). Guarantees: Without systemd nothing is done. A message that cannot be sent is no error
of ours: systemd's own time-outs say what follows. A process that only waits for a processor is
alive, and one whose event loop hangs or spins is not.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Of the time that systemd waits: how often it hears of us, and how long the event loop may work on
# one thing, without what it waits for a processor. Together they leave a tenth.
_BEATS: Final = 5
_WEDGED_AFTER: Final = 0.7


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
    """Until it is cancelled: a thread of its own tells systemd that we live, unless this event loop
    is wedged (`is_wedged`). Returns at once where systemd does not wait for this process."""
    text, wanted = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
    if not text.isdecimal() or int(text) == 0 or wanted not in (None, str(os.getpid())):
        return
    watch = _Watch(environ, int(text) / 1e6)
    threading.Thread(target=watch.run, name="watchdog", daemon=True).start()
    try:
        while True:
            watch.beat()
            await asyncio.sleep(watch.interval)
    finally:
        watch.ended.set()


@dataclass(frozen=True)
class Beat:
    """When the event loop last had its turn, and for how long its thread had waited for a processor
    until then, in seconds."""

    at: float
    waited: float


def is_wedged(last: Beat, now: Beat, limit: float) -> bool:
    """Whether the event loop has hung or worked on one thing for `limit` seconds since its last
    turn: the time in which it was ready to run and had no processor is not its own."""
    return (now.at - last.at) - (now.waited - last.waited) >= limit


class _Watch:
    """`timeout`, in seconds, after which systemd ends a process that is silent."""

    def __init__(self, environ: Mapping[str, str], timeout: float) -> None:
        self.interval = timeout / _BEATS
        self.ended = threading.Event()
        self._environ = environ
        self._limit = timeout * _WEDGED_AFTER
        self._waits = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._last = self._beat()

    def beat(self) -> None:
        """By the event loop, at each of its turns that this asks for."""
        self._last = self._beat()

    def run(self) -> None:
        while not self.ended.is_set():
            if not is_wedged(self._last, self._beat(), self._limit):
                notify(self._environ, "WATCHDOG=1")
            self.ended.wait(self.interval)

    def _beat(self) -> Beat:
        """Without the kernel's figures (CONFIG_SCHED_INFO) all time counts as the loop's own."""
        waited = 0.0
        with suppress(OSError, ValueError, IndexError):
            # On a processor, waiting for one, turns: in ns (Documentation/scheduler/sched-stats).
            waited = int(self._waits.read_text().split()[1]) / 1e9
        return Beat(time.monotonic(), waited)
