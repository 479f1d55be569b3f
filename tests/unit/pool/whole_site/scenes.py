"""What befalls a site, as chance draws it: scenes that overlap, each a few deeds at their times.

A play is drawn by its seed alone, and can be told in words. It ends when all is well again.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.unit.pool.whole_site.world import ARP, NAMES, Site

# Seconds: before the first scene; between two; of trouble after which members report seldom; of a
# member that stands still, less than what makes it a dead one; after the last deed.
WELL, LONG, FROZEN, AFTER = 90.0, (310.0, 420.0), (200.0, 285.0), 200.0
GAPS = (0.0, 20.0, 60.0, 150.0, 320.0)
# Scenes of one play, one of which may be long trouble before the others.
MOST = 3


@dataclass(frozen=True)
class Deed:
    """`verb`: a method of `Site`."""

    at: float
    verb: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.at:g} {self.verb} {' '.join(map(str, self.arguments))}"


Scene = Iterable[Deed]
TROUBLES = {
    "leave_lan": "join_lan", "kill": "start", "freeze": "thaw", "wall": "unwall", "off": "on",
    "sicken": "cure", "cut": "mend",
}  # fmt: skip


def _for(name: str, verb: str, at: float, seconds: float) -> list[Deed]:
    """It begins, and ends."""
    return [Deed(at, verb, (name,)), Deed(at + seconds, TROUBLES[verb], (name,))]


def _trouble(chance: random.Random) -> Scene:
    verb = chance.choice(tuple(TROUBLES))
    seconds = chance.uniform(*(FROZEN if verb == "freeze" else LONG))
    return _for(chance.choice(NAMES), verb, 0.0, seconds)


def _dies(chance: random.Random) -> Scene:
    return _for(chance.choice(NAMES), "off", 0.0, chance.uniform(60.0, 280.0))


def _site_cut(chance: random.Random) -> Scene:
    seconds = chance.uniform(40.0, 400.0)
    return [it for name in NAMES for it in _for(name, "cut", chance.uniform(0.0, 4.0), seconds)]


def _cut(chance: random.Random) -> Scene:
    """Some; a neighbour is struck meanwhile."""
    cut = chance.sample(NAMES, chance.choice((1, 1, 2, 3)))
    seconds = chance.uniform(20.0, 200.0)
    deeds = [it for name in cut for it in _for(name, "cut", 0.0, seconds)]
    other = chance.choice([it for it in NAMES if it not in cut])
    verb = chance.choice(("kill", "freeze", "off", "wall", "sicken"))
    return [*deeds, *_for(other, verb, chance.uniform(0.0, seconds), chance.uniform(5.0, 60.0))]


def _power_cut(chance: random.Random) -> Scene:
    """One stays off."""
    lost, seconds = chance.choice(NAMES), chance.uniform(4.0, 120.0)
    return [
        deed
        for name in NAMES
        for deed in _for(
            name, "off", 0.0, 280.0 if name == lost else seconds + chance.uniform(0.0, 20.0)
        )
    ]


def _rolled_out(chance: random.Random) -> Scene:
    pause = chance.uniform(4.0, 30.0)
    deeds = [
        it
        for number, name in enumerate(chance.sample(NAMES, len(NAMES)))
        for it in _for(name, "kill", number * pause, chance.uniform(2.0, 12.0))
    ]
    return [*deeds, *_for(chance.choice(NAMES), "off", chance.uniform(0.0, 5 * pause), 250.0)]


def _ill_and_cut(chance: random.Random) -> Scene:
    """For less than 300 s, in which its host lives."""
    name, seconds = chance.choice(NAMES), chance.uniform(*FROZEN)
    at = chance.uniform(0.0, seconds / 2)
    verb = chance.choice(("freeze", "kill", "wall"))
    return [*_for(name, verb, 0.0, seconds), *_for(name, "cut", at, seconds - at)]


def _ill_then_dead(chance: random.Random) -> Scene:
    """When its neighbours have come to report on it once a minute."""
    name, verb = chance.choice(NAMES), chance.choice(("kill", "freeze", "wall", "leave_lan"))
    seconds = chance.uniform(*LONG)
    return [*_for(name, verb, 0.0, seconds), *_for(name, "off", seconds - 5.0, 250.0)]


def _split(chance: random.Random) -> Scene:
    """Of the LAN; maybe the smaller side has no link."""
    few = chance.sample(NAMES, 2)
    seconds = chance.uniform(30.0, 250.0)
    pairs = [(one, other) for one in few for other in NAMES if other not in few]
    deeds = [Deed(0.0, "part", it) for it in pairs] + [Deed(seconds, "unite", it) for it in pairs]
    if chance.random() < 0.5:
        deeds += [it for name in few for it in _for(name, "cut", 0.0, seconds)]
    return deeds


def _controller(chance: random.Random) -> Scene:
    if chance.random() < 0.5:
        return [Deed(0.0, "restart_controller")]
    return [Deed(0.0, "stop_controller", (chance.choice((4.0, 12.0, 45.0, 200.0)),))]


SCENES: Sequence[Callable[[random.Random], Scene]] = (
    *(_dies, _site_cut, _site_cut, _cut, _power_cut, _power_cut, _rolled_out, _ill_and_cut),
    *(_ill_and_cut, _ill_then_dead, _split, _controller),
)


def draw(seed: int) -> tuple[tuple[float, ...], Sequence[Deed]]:
    """How long the kernels ask for a host at each address, and what happens."""
    chance = random.Random(seed)
    arp = tuple(chance.uniform(0.0, ARP) for _ in NAMES)
    scenes = [chance.choice(SCENES) for _ in range(chance.randint(1, MOST))]
    at, deeds = WELL, []
    if chance.random() < 0.5:
        deeds += _later(_trouble(chance), at)
        # The others come while it lasts, or when it is just over.
        at += chance.uniform(0.0, LONG[1])
    for scene in scenes:
        deeds += _later(scene(chance), at)
        at += chance.choice(GAPS)
    return arp, sorted(deeds, key=lambda it: it.at)


def _later(scene: Scene, by: float) -> list[Deed]:
    return [Deed(by + it.at, it.verb, it.arguments) for it in scene]


def play(seed: int, **more: Any) -> list[str]:
    """What the observer says, by the first thing that was wrong; `more`: as `Site`."""
    arp, deeds = draw(seed)
    site = Site(arp, **more)
    begun, left = site.now, list(deeds)
    while left or site.now < begun + deeds[-1].at + AFTER:
        while left and begun + left[0].at <= site.now:
            deed = left.pop(0)
            getattr(site, deed.verb)(*deed.arguments)
        site.step()
        if site.violations:
            return [f"{site.now - begun:g} {it}" for it in site.violations]
    dead = [name for name, node in site.cloud.nodes.items() if node.is_dead]
    return [f"dead is left behind on {', '.join(dead)}"] if dead else []
