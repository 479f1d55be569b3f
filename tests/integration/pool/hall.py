"""Three nodes of one pool as real processes, each with a member, a relay and a link to break."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.pools.controller import PoolControllerPod
from tools.harness.pods.pools.member import PoolNode

NAMES = ("m1", "m2", "m3")
# Of each borrower.
LENT_CONNECTIONS = 8
# Seconds; on a busy machine.
TIMEOUT = 60.0

Nodes = dict[str, PoolNode]


def until(condition: Callable[[], bool], *, what: str, timeout: float = TIMEOUT) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout:g}s: {what}"
        time.sleep(0.1)


@contextmanager
def hall(
    plane: ControlPlane, folder: Path, *, prepare: Callable[[PoolNode], None] = lambda node: None
) -> Iterator[Nodes]:
    """All see each other alive when it begins. `prepare` is called with each before it starts."""
    port = Reservation()
    with ExitStack() as stack:
        stack.callback(port.release)
        stack.enter_context(PoolControllerPod(plane, folder)).wait_leading()
        found = {
            name: PoolNode(
                plane,
                name,
                address=f"127.0.77.{number}",
                lan_port=port.port,
                folder=folder,
                labels={DEFAULT_POOL_LABEL: "hall"},
                flags=[
                    f"--lend-connections={LENT_CONNECTIONS}",
                    # Nobody listens there, and none of them may lead.
                    f"--elector=http://{LOOPBACK}:9",
                ],
            )
            for number, name in enumerate(NAMES, 1)
        }
        for node in found.values():
            prepare(node)
            stack.enter_context(node)
        until(lambda: all(_sees_all(it) for it in found.values()), what="all see all alive")
        yield found
        for node in found.values():
            for log in (node.member.log_text(all_lives=True), node.relay.log_text(all_lives=True)):
                assert "Traceback" not in log, log
            assert "the elector" not in node.member.log_text(all_lives=True)


def _sees_all(node: PoolNode) -> bool:
    told = node.member.status()
    alive = [it for it in told["peers"] if it["verdict"] == "Alive"]
    return len(alive) == len(NAMES) - 1 and bool(told["ownLink"]) and bool(told["kubelet"])


def borrows(node: PoolNode) -> str:
    """Waits until it has a lender; its name."""
    until(lambda: node.member.status()["link"] == "Lent", what=f"{node.name} borrows")
    return str(node.member.status()["via"])
