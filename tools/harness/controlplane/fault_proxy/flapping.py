"""A link that goes up and down by itself for as long as a block runs.

Guarantees: the link is whole again when the block ends, however it ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from tools.harness.controlplane.fault_proxy.proxy import FaultProxy


@contextlib.contextmanager
def flapping(
    proxy: FaultProxy, break_it: Callable[[FaultProxy], None], *, up: float, down: float
) -> Iterator[None]:
    """Breaks the link for `down` seconds after each `up` seconds, beginning with a break."""
    ended = threading.Event()

    def flap() -> None:
        while not ended.is_set():
            break_it(proxy)
            ended.wait(down)
            proxy.heal()
            ended.wait(up)

    thread = threading.Thread(target=flap, name="flapping")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        proxy.heal()
