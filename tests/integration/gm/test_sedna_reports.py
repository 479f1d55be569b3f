"""Reports of Sedna's own LCs, which number nothing and repeat nothing, through whole pods of GM."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.integration.gm.shop import Shop
from tests.integration.gm.test_high_availability import leader_of
from tests.integration.gm.test_stream_sedna import old_lc
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.gm import GmPod

COUNT = 100


@contextmanager
def pods(plane: ControlPlane, shop: Shop, count: int) -> Iterator[Mapping[str, tuple[GmPod, int]]]:
    """By name, each with the port of Sedna's websocket."""
    found: dict[str, tuple[GmPod, int]] = {}
    with ExitStack() as stack:
        for index in range(count):
            held = Reservation()
            stack.callback(held.release)
            flags = [f"--sedna-listen={LOOPBACK}:{held.port}"]
            pod = GmPod(plane, shop.namespace, name=f"gm-{index}", flags=flags)
            stack.callback(pod.stop)
            pod.start(wait=False)
            found[pod.name] = (pod, held.port)
        for pod, _ in found.values():
            pod.wait_ready()
        yield found


def say(shop: Shop, port: int, counts: Iterable[tuple[str, int]], *, node: str = "edge-a") -> None:
    """Connects and reports at once, reads nothing, and hangs up."""

    async def scene() -> None:
        async with old_lc(port, node=node, namespace=shop.namespace) as lc:
            for name, count in counts:
                await lc.say("dataset", name, {"numberOfSamples": count})

    asyncio.run(scene())


def wait_counts(shop: Shop, wanted: Mapping[str, int]) -> None:
    def counts() -> dict[str, int]:
        found = {it["metadata"]["name"]: it.get("status", {}) for it in shop.items("dataset")}
        return {name: found[name].get("numberOfSamples", -1) for name in wanted}

    shop.wait(counts, lambda it: it == wanted, what="all counts")


def test_reports_count_before_their_objects_were_sent_on_this_connection(
    control_plane: ControlPlane, shop: Shop
) -> None:
    wanted = {f"d{index}": index for index in range(COUNT)}
    for name in wanted:
        shop.dataset(name)
    shop.dataset("theirs", node="edge-b")
    with pods(control_plane, shop, 1) as found:
        ((pod, port),) = found.values()
        pod.wait_leading()
        say(shop, port, wanted.items())
        wait_counts(shop, wanted)
        # One that this GM has not heard of yet is looked up, and another node's is refused.
        pod.link.delay_response(0.3)
        shop.dataset("young")
        say(shop, port, [("theirs", 9), ("absent", 9), ("young", 3)])
        wait_counts(shop, {"young": 3})

        def ended() -> tuple[int, ...]:
            reports = pod.gm.status()["reports"]
            return reports["stored"], reports["refused"], reports["lost"]

        # Each of the three is looked up by itself.
        shop.wait(ended, lambda it: sum(it) == COUNT + 3, what="an end of each report")
        assert ended() == (COUNT + 1, 2, 0)
        assert "numberOfSamples" not in shop.get("dataset", "theirs").get("status", {})


def test_reports_that_a_leader_took_while_its_link_was_cut_count_under_the_next_one(
    control_plane: ControlPlane, shop: Shop
) -> None:
    wanted = {f"d{index}": index for index in range(COUNT)}
    for name in wanted:
        shop.dataset(name)
    with pods(control_plane, shop, 2) as found:
        former, port = found[leader_of([pod for pod, _ in found.values()]).name]
        former.link.black_hole()
        # Nobody has noticed yet.
        say(shop, port, wanted.items())
        ((other, other_port),) = (it for it in found.values() if it[0] is not former)
        other.wait_leading()
        say(shop, other_port, [("d0", 1000)])
        wait_counts(shop, {"d0": 1000})
        former.link.heal()
        # An older count of the same object comes too late.
        wait_counts(shop, wanted | {"d0": 1000})
        assert other.is_leader
        assert former.gm.status()["reports"]["lost"] == 0


def test_reports_that_came_in_the_last_moment_of_a_gm_are_stored(
    control_plane: ControlPlane, shop: Shop
) -> None:
    wanted = {f"d{index}": index for index in range(COUNT)}
    for name in wanted:
        shop.dataset(name)
    with pods(control_plane, shop, 1) as found:
        ((pod, port),) = found.values()
        pod.wait_leading()
        pod.link.delay_response(0.2)
        say(shop, port, wanted.items())
        pod.gm.terminate()
        pod.link.heal()
        pod.gm.start()
        wait_counts(shop, wanted)
