"""Every fault that the nemesis of pools knows, each a context manager: it holds while entered.

Each is written into the timeline before it holds and after it was healed. A fault touches the
resources that `resources` names, so that faults of different ones may hold at once.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from itertools import product

from pool_sidecar.core.pool_member import PATH
from tools.harness.controlplane.fault_proxy.flapping import flapping
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.pools.accounts import node_client
from tools.nemesis.elector.faults import Draw, NotApplicable
from tools.nemesis.pool.judge.timeline import Timeline, What
from tools.nemesis.pool.network import Pair
from tools.nemesis.pool.node import LAN_PORT, PoolNode
from tools.nemesis.pool.testbed import NAMES, PoolTestbed

OTHER_POOL = "elsewhere"
ALL = "site"
# Seconds: each way; how often a link goes up and down; between two reports of a liar.
DELAY = 2.0
FLAP = 1.0
LIE_EVERY = 5.0
LOSS = 0.5
CLOCK_ERROR = 3600.0
PARTS = (What.MEMBER, What.RELAY, What.KUBELET, What.ELECTOR)

Hold = AbstractContextManager[None]


class Faults:
    def __init__(self, testbed: PoolTestbed, timeline: Timeline) -> None:
        self._testbed, self._timeline = testbed, timeline

    def hold(self, draw: Draw) -> Hold:
        return KINDS[draw.kind](self, draw)

    def node(self, draw: Draw) -> PoolNode:
        return self._testbed.nodes[draw.target]

    # ── links to the cloud ──

    @contextmanager
    def proxied(
        self, draw: Draw, strike: Callable[[FaultProxy], None], *, is_shaky: bool = False
    ) -> Iterator[None]:
        link = self.node(draw).link
        with self._timeline.holding(What.WAN, draw.target, is_shaky=is_shaky):
            strike(link)
            try:
                yield
            finally:
                link.heal()

    @contextmanager
    def black_hole(self, draw: Draw) -> Iterator[None]:
        with self._timeline.holding(What.WAN, draw.target):
            self._testbed.network.cut(draw.target)
            try:
                yield
            finally:
                self._testbed.network.mend(draw.target)

    @contextmanager
    def flap(self, draw: Draw) -> Iterator[None]:
        with (
            self._timeline.holding(What.WAN, draw.target, is_shaky=True),
            flapping(self.node(draw).link, FaultProxy.refuse, up=FLAP, down=FLAP),
        ):
            yield

    # ── the LAN ──

    @contextmanager
    def part(self, pairs: Sequence[Pair]) -> Iterator[None]:
        with ExitStack() as stack:
            for source, target in pairs:
                stack.enter_context(self._timeline.holding(What.LAN, source, peer=target))
            self._testbed.network.part(pairs)
            try:
                yield
            finally:
                self._testbed.network.join(pairs)

    def alone(self, draw: Draw) -> Hold:
        return self.part(self.node(draw).lan_pairs)

    def one_way(self, draw: Draw) -> Hold:
        """It hears nobody, or nobody hears it."""
        position = int(draw.luck < 0.5)
        return self.part([it for it in self.node(draw).lan_pairs if it[position] == draw.target])

    @contextmanager
    def firewall(self, draw: Draw) -> Iterator[None]:
        """A new one on the members' port: its host lives, and it asks others as before."""
        network = self._testbed.network
        with self._timeline.holding(What.FIREWALL, draw.target):
            network.firewall(draw.target, LAN_PORT, is_up=True)
            try:
                yield
            finally:
                network.firewall(draw.target, LAN_PORT, is_up=False)

    def split(self, draw: Draw) -> Hold:
        """Two on one side, three on the other."""
        few = minority(draw)
        many = [it for it in NAMES if it not in few]
        return self.part([*product(few, many), *product(many, few)])

    @contextmanager
    def split_uncut(self, draw: Draw) -> Iterator[None]:
        """Of which the smaller side has no link to the cloud."""
        with ExitStack() as stack:
            for name in minority(draw):
                one = Draw(draw.kind, name, draw.seconds, draw.luck)
                stack.enter_context(self.black_hole(one))
            stack.enter_context(self.split(draw))
            yield

    # ── processes ──

    @contextmanager
    def kill(self, draw: Draw, what: What, *, loses_data: bool = False) -> Iterator[None]:
        node = self.node(draw)
        if what not in node.parts:
            raise NotApplicable
        with ExitStack() as stack:
            stack.enter_context(self._timeline.holding(what, draw.target))
            if loses_data:
                lost = What.DISK if what is What.RELAY else What.FORGOTTEN
                stack.enter_context(self._timeline.holding(lost, draw.target))
            node.parts[what].kill()
            if loses_data:
                node.lose_data(what)
            try:
                yield
            finally:
                node.start(what)

    @contextmanager
    def freeze(self, draw: Draw, what: What) -> Iterator[None]:
        node = self.node(draw)
        if what not in node.parts:
            raise NotApplicable
        with ExitStack() as stack:
            stack.enter_context(self._timeline.holding(what, draw.target))
            if what is What.MEMBER:
                stack.enter_context(self._timeline.holding(What.FROZEN, draw.target))
            node.parts[what].freeze()
            stack.callback(node.parts[what].thaw)
            yield

    @contextmanager
    def power_off(self, draw: Draw) -> Iterator[None]:
        """From when nothing leaves it any more, until it leaves again."""
        node = self.node(draw)
        node.silence()
        with self._timeline.holding(What.OFF, draw.target):
            node.power_off()
            try:
                yield
            finally:
                node.power_on()

    @contextmanager
    def full_disk(self, draw: Draw) -> Iterator[None]:
        """Of one half of the times, member and relay are restarted on it."""
        node = self.node(draw)
        with self._timeline.holding(What.DISK, draw.target):
            node.fill_disk()
            try:
                if draw.luck < 0.5:
                    self._restart(draw, What.MEMBER, What.RELAY)
                yield
            finally:
                node.make_room()

    @contextmanager
    def wrong_clock(self, draw: Draw) -> Iterator[None]:
        """From a restart on, until another one."""
        node = self.node(draw)
        node.set_clock(CLOCK_ERROR if draw.luck < 0.5 else -CLOCK_ERROR)
        try:
            self._restart(draw, *map(What, node.clocked))
            yield
        finally:
            node.set_clock(0.0)
            self._restart(draw, *map(What, node.clocked))

    def _restart(self, draw: Draw, *parts: What) -> None:
        for what in parts:
            with self.kill(draw, what):
                pass

    @contextmanager
    def lie(self, draw: Draw) -> Iterator[None]:
        """In place of its member, a hostile one reports that all others are gone."""
        ended = threading.Event()
        liar = threading.Thread(target=self._lie_on, args=(draw.target, ended), daemon=True)
        with self._timeline.holding(What.LIAR, draw.target), self.kill(draw, What.MEMBER):
            liar.start()
            try:
                yield
            finally:
                ended.set()
                liar.join()

    def _lie_on(self, name: str, ended: threading.Event) -> None:
        client = node_client(self._testbed.plane, name)
        others = [it for it in NAMES if it != name]
        begun = time.monotonic()
        while not ended.wait(LIE_EVERY):
            # Since it lies: since before the others were Ready would be no vote.
            seconds = int(time.monotonic() - begun)
            verdicts = [{"node": it, "verdict": "Silent", "seconds": seconds} for it in others]
            report = {"sequence": int(time.time()), "every": 10, "verdicts": verdicts}
            # The API server may be away.
            with suppress(OSError):
                client.patch(f"{PATH}/{name}/status", {"status": {"report": report}})

    # ── the cloud ──

    @contextmanager
    def controller(self, draw: Draw) -> Iterator[None]:
        pod = self._testbed.controller
        with self._timeline.holding(What.CONTROLLER):
            if draw.luck < 0.5:
                pod.freeze()
                try:
                    yield
                finally:
                    pod.thaw()
            else:
                pod.kill()
                try:
                    yield
                finally:
                    pod.start()

    @contextmanager
    def server(self, draw: Draw) -> Iterator[None]:
        with self._timeline.holding(What.SERVER):
            self._testbed.plane.stop_apiserver()
            try:
                yield
            finally:
                self._testbed.plane.start_apiserver()

    def compact(self, draw: Draw) -> Hold:
        """Whoever goes on at an earlier version is told that it is gone."""
        self._testbed.plane.compact()
        return nullcontext()

    @contextmanager
    def move(self, draw: Draw) -> Iterator[None]:
        with self._timeline.holding(What.MOVED, draw.target):
            self._testbed.move(draw.target, OTHER_POOL)
            try:
                yield
            finally:
                self._testbed.move(draw.target)

    def rotate(self, draw: Draw) -> Hold:
        self.node(draw).rotate()
        return nullcontext()


def minority(draw: Draw) -> Sequence[str]:
    """Two neighbours in the ring of names."""
    first = int(draw.luck * len(NAMES))
    return [NAMES[first], NAMES[(first + 1) % len(NAMES)]]


def resources(draw: Draw) -> set[str]:
    """What the fault touches."""
    if draw.kind in ("server", "controller"):
        return {draw.kind}
    if draw.kind.startswith("split"):
        lans = {f"{it} lan" for it in NAMES}
        links = {f"{it} wan" for it in minority(draw)} if draw.kind == "split uncut" else set()
        return lans | links
    if draw.kind == "compaction":
        return {"etcd"}
    if draw.kind in ("power off", "disk full", "clock wrong"):
        # What is lost twice comes back when both are over: links and LAN may be lost besides.
        return {f"{draw.target} {it} process" for it in PARTS}
    if draw.kind == "credentials rotated":
        return {"server"}
    first = draw.kind.partition(" ")[0]
    if first in PARTS:
        return {f"{draw.target} {first} process"}
    if first == "liar":
        return {f"{draw.target} member process"}
    return {f"{draw.target} {first}"}


Kind = Callable[[Faults, Draw], Hold]


def _part_kinds(what: What) -> Iterable[tuple[str, Kind]]:
    yield f"{what} kill", lambda faults, draw: faults.kill(draw, what)
    yield f"{what} freeze", lambda faults, draw: faults.freeze(draw, what)
    if what in (What.MEMBER, What.RELAY):
        yield f"{what} lost disk", lambda faults, draw: faults.kill(draw, what, loses_data=True)


WAN: dict[str, Kind] = {
    "wan refused": lambda faults, draw: faults.proxied(draw, FaultProxy.refuse),
    "wan black hole": Faults.black_hole,
    "wan delay": lambda faults, draw: faults.proxied(
        draw, lambda link: link.delay(DELAY), is_shaky=True
    ),
    "wan loss": lambda faults, draw: faults.proxied(
        draw, lambda link: link.lose_segments(LOSS), is_shaky=True
    ),
    "wan flapping": Faults.flap,
}
LAN: dict[str, Kind] = {
    "lan alone": Faults.alone,
    "lan one way": Faults.one_way,
    "lan firewall": Faults.firewall,
}
SPLIT: dict[str, Kind] = {"split": Faults.split, "split uncut": Faults.split_uncut}
PROCESS: dict[str, Kind] = dict(kind for what in PARTS for kind in _part_kinds(what))
NODE: dict[str, Kind] = {
    "power off": Faults.power_off,
    "label moved": Faults.move,
    "credentials rotated": Faults.rotate,
    "liar": Faults.lie,
    "disk full": Faults.full_disk,
    "clock wrong": Faults.wrong_clock,
}
CLOUD: dict[str, Kind] = {
    "server": Faults.server,
    "controller": Faults.controller,
    "compaction": Faults.compact,
}
KINDS: dict[str, Kind] = {**WAN, **LAN, **SPLIT, **PROCESS, **NODE, **CLOUD}
