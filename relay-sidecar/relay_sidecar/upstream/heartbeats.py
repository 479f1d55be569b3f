"""The node's own signs of life, which wait for the link while it is down.

Kubelet renews its Lease each 10 s and sends its status; of a quick refusal it backs off for up to
7 s, and the node is Ready that much later after a heal. Without a relay its request waits in the
network, and goes through in the moment when the link is back. So does it here: the GET and the
renewal of the node's own Lease, and the patch of its own status.

A patch that has waited is answered 409 instead of sent. Kubelet made it from the Node before the
outage, so it lacks what the control plane has changed since: the node would be not Ready for 10 s
more. Kubelet reads the newest Node at once, and patches that.

Guarantees: each is sent once, and not after its client has gone or has stopped to wait for it; so
few wait at a time that they are no queue; nothing else waits.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

from edge_sidecars.apimachinery.status import Refused, conflict
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER

# Kubelet has one of each kind under way.
MAX_WAITING: Final = 8
# Seconds that kubelet waits for its Lease and its status (a quarter of the Lease's 40 s; 10 s), and
# the longest that is waited here: where the client names no time, and where it names a longer one.
CLIENT_TIMEOUT: Final = 10.0
# Of the client's time: the rest is for the way to upstream and back.
SHARE: Final = 0.9
# Seconds between two looks at a link that is not known to be down, but takes nothing.
RETRY: Final = 0.2
_DURATION: Final = re.compile(r"(?:(\d{1,4})m)?(?:(\d{1,6}(?:\.\d{1,9})?)(ms|s)?)?")


class Heartbeats:
    """`node`: its name. `until_up` returns when upstream may be asked, and whether it may, after so
    many seconds at most."""

    def __init__(self, node: str, until_up: Callable[[float], Awaitable[bool]]) -> None:
        self._lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
        self._status = f"/api/v1/nodes/{node}/status"
        self._node = node
        self._until_up = until_up
        self._waiting = 0

    def takes(self, request: web.BaseRequest) -> bool:
        """Whether it is one of these, and there is a place."""
        if not request[CALLER].is_node or self._waiting >= MAX_WAITING:
            return False
        is_lease = request.path == self._lease and request.method in ("GET", "PUT", "PATCH")
        return is_lease or (request.path == self._status and request.method == "PATCH")

    def check_after_wait(self, request: web.BaseRequest) -> None:
        """Raises `Refused` where what it was made from is old."""
        if request.path == self._status:
            raise Refused(conflict("nodes", self._node, "it was patched before the link was back"))

    def deadline(self, request: web.BaseRequest) -> float:
        """Until when (the event loop's clock) it may wait."""
        named = request.query.get("timeout", "")
        wanted = min(_seconds(named) or CLIENT_TIMEOUT, CLIENT_TIMEOUT)
        return asyncio.get_running_loop().time() + SHARE * wanted

    async def wait(self, deadline: float) -> bool:
        """Whether upstream may be asked, at the deadline at the latest."""
        now = asyncio.get_running_loop().time()
        self._waiting += 1
        try:
            if not await self._until_up(max(deadline - now, 0.0)):
                return False
        finally:
            self._waiting -= 1
        return asyncio.get_running_loop().time() < deadline


def _seconds(text: str) -> float:
    """Of a duration as client-go writes it; 0.0 where it is none."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return 0.0
    minutes, amount, unit = found.groups()
    seconds = float(amount or 0) * (0.001 if unit == "ms" else 1.0)
    return 60.0 * int(minutes or 0) + seconds
