"""What can be done to a node of a testbed in namespaces, by resource: begun, and ended again."""

from collections.abc import Callable, Mapping

from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.main import MainServer
from tools.nemesis.vip.nemesis import Fault
from tools.nemesis.vip.network import Network

# Seconds each way: a renewal takes longer than its time-out.
LATE = 1.5
END_TIMEOUT = 20.0


def faults(
    name: str, elector: ElectorPod, main: MainServer, link: FaultProxy, network: Network
) -> Mapping[str, Mapping[str, Fault]]:
    """`link`: the elector's way to the API server; `network`: what the address is in.

    A node that is cut off shares both with other faults, of which one may end the other early.
    """
    return {
        "main": {
            "gone": pair(main.close, main.open),
            "sick": pair(lambda: _answer(main, 500), lambda: _answer(main, 200)),
            "hung": pair(lambda: _answer(main, 0), lambda: _answer(main, 200)),
        },
        "elector": {
            "killed": pair(elector.kill, elector.start),
            "frozen": pair(elector.freeze, elector.thaw),
            "terminated": pair(elector.terminate, lambda: _again(elector)),
            "frozen and terminated": pair(
                lambda: _each(elector.freeze, elector.terminate),
                lambda: _each(elector.thaw, lambda: _again(elector)),
            ),
        },
        "link": {
            "refused": pair(link.refuse, link.heal),
            "reset": pair(link.reset, link.heal),
            "silent": pair(link.black_hole, link.heal),
            "late": pair(lambda: link.delay(LATE), link.heal),
            "deaf": pair(link.lose_response, link.heal),
        },
        "cable": {
            "unplugged": pair(lambda: network.unplug(name), lambda: network.plug(name)),
            "silent": pair(lambda: network.silence(name), lambda: network.restore(name)),
        },
        "node": {
            "cut off": pair(
                lambda: _each(link.black_hole, lambda: network.silence(name)),
                lambda: _each(lambda: network.restore(name), link.heal),
            )
        },
    }


def pair(begin: Callable[[], object], end: Callable[[], object]) -> Fault:
    """A fault that begins and ends so."""

    def fault() -> Callable[[], None]:
        begin()
        return lambda: _each(end)

    return fault


def _each(*steps: Callable[[], object]) -> None:
    for step in steps:
        step()


def _answer(main: MainServer, health: int) -> None:
    main.health = health


def _again(elector: ElectorPod) -> None:
    """It ends by itself: two request time-outs and a stopped loop at the most."""
    status = elector.wait(END_TIMEOUT)
    assert status == 0, f"{elector.name} ended with {status}: {elector.log_text()}"
    elector.start()
