"""What is played, as chance draws it: storms of many faults at once, and scenes of a few that
belong together. Pure but for the chance that comes in.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.nemesis.elector.faults import Draw
from tools.nemesis.pool.faults import LAN, NODE, PROCESS, SPLIT, WAN
from tools.nemesis.pool.testbed import NAMES

# Seconds: of faults in a storm; until a node that is off has been judged and its pods are gone.
SHORTEST, LONGEST = 1.0, 60.0
UNTIL_GONE = 135.0
# Until a whole site that is cut is lost, and its control workload gone; until a node is lost.
UNTIL_LOST = 75.0
PAUSE = 6.0
GROUPS = (1, 1, 1, 2, 2, 3)


@dataclass(frozen=True)
class Cue:
    """A fault that begins so many seconds after the scene."""

    after: float
    draw: Draw


@dataclass(frozen=True)
class Scene:
    name: str
    cues: Sequence[Cue]


def storm(chance: random.Random) -> list[Draw]:
    """The next faults of a storm."""
    return [it for _ in range(chance.choice(GROUPS)) for it in _draw(chance)]


def _draw(chance: random.Random) -> list[Draw]:
    family = chance.choices(
        ["process", "wan", "lan", "split", "node", "cloud"], [8, 6, 3, 1, 3, 1]
    )[0]
    target, luck = chance.choice(NAMES), chance.random()
    seconds = chance.uniform(*chance.choice([(SHORTEST, 5.0), (5.0, 20.0), (20.0, LONGEST)]))
    if family == "wan":
        kind, share = chance.choice(sorted(WAN)), chance.choice([1, 1, 1, 2, 3, len(NAMES)])
        names = chance.sample(NAMES, share)
        return [Draw(kind, name, seconds, luck) for name in names]
    if family == "cloud":
        # An API server needs some seconds to be back.
        kind = chance.choice(["server", "controller", "controller"])
        return [Draw(kind, "cloud", min(seconds, 15.0), luck)]
    kinds = {"process": PROCESS, "lan": LAN, "split": SPLIT, "node": NODE}[family]
    return [Draw(chance.choice(sorted(kinds)), target, seconds, luck)]


def scene(chance: random.Random) -> Scene:
    return chance.choice(SCENES)(chance)


def _dead_alone(chance: random.Random) -> Scene:
    name = chance.choice(NAMES)
    return Scene("a node dies", [Cue(0.0, Draw("power off", name, UNTIL_GONE, 0.0))])


def _reboot(chance: random.Random) -> Scene:
    name, seconds = chance.choice(NAMES), chance.uniform(40.0, 75.0)
    return Scene("a node reboots", [Cue(0.0, Draw("power off", name, seconds, 0.0))])


def _site_cut(chance: random.Random) -> Scene:
    kind = chance.choice(["wan refused", "wan black hole"])
    cues = [Cue(chance.uniform(0.0, 2.0), Draw(kind, it, UNTIL_LOST, 0.0)) for it in NAMES]
    return Scene("the whole site is cut", cues)


def _site_cut_but_a_liar(chance: random.Random) -> Scene:
    """The one that the cloud hears says that the others are gone."""
    liar = chance.choice(NAMES)
    cues = [Cue(0.0, Draw("wan black hole", it, UNTIL_LOST, 0.0)) for it in NAMES if it != liar]
    return Scene(
        "all are cut, and one lies", [Cue(0.0, Draw("liar", liar, UNTIL_LOST, 0.0)), *cues]
    )


def _cut_and_lender(chance: random.Random) -> Scene:
    """Of the others, one that is likely to lend is struck."""
    cut, other = chance.sample(NAMES, 2)
    kind = chance.choice(["member kill", "member freeze", "power off", "wan refused"])
    luck = chance.random()
    return Scene(
        "a node is cut, a neighbour struck",
        [
            Cue(0.0, Draw("wan black hole", cut, UNTIL_LOST, luck)),
            Cue(chance.uniform(8.0, 25.0), Draw(kind, other, 30.0, luck)),
        ],
    )


def _frozen_lenders(chance: random.Random) -> Scene:
    """A node that borrows dies while whoever lends stands still, maybe with its heartbeat."""
    dead = chance.choice(NAMES)
    at = chance.uniform(15.0, 26.0)
    frozen = chance.uniform(15.0, 40.0)
    others = [it for it in NAMES if it != dead]
    return Scene(
        "a borrower dies, its lender stands still",
        [
            Cue(0.0, Draw("wan black hole", dead, at, 0.0)),
            *(
                Cue(at - chance.uniform(0.0, 0.5), Draw("member freeze", it, frozen, 0.0))
                for it in others
            ),
            Cue(at + 0.1, Draw("power off", dead, UNTIL_LOST, 0.0)),
        ],
    )


def _split_uncut(chance: random.Random) -> Scene:
    draw = Draw("split uncut", "site", UNTIL_GONE, chance.random())
    return Scene("the site is split, one side has no link", [Cue(0.0, draw)])


def _alone(chance: random.Random) -> Scene:
    """In the LAN, with a link: nothing is to happen to it."""
    draw = Draw(chance.choice(sorted(LAN)), chance.choice(NAMES), UNTIL_LOST, chance.random())
    return Scene("a node is alone in the LAN", [Cue(0.0, draw)])


def _lost_disks(chance: random.Random) -> Scene:
    kind = chance.choice(["member lost disk", "relay lost disk"])
    cues = [Cue(chance.uniform(0.0, 5.0), Draw(kind, it, 5.0, 0.0)) for it in NAMES]
    return Scene("all lose their disks", cues)


def _flapping(chance: random.Random) -> Scene:
    names = chance.sample(NAMES, chance.choice([1, 2, len(NAMES)]))
    cues = [Cue(0.0, Draw("wan flapping", it, 45.0, 0.0)) for it in names]
    return Scene("links flap", cues)


SCENES: Sequence[Callable[[random.Random], Scene]] = (
    _dead_alone,
    _reboot,
    _site_cut,
    _site_cut_but_a_liar,
    _cut_and_lender,
    _cut_and_lender,
    _frozen_lenders,
    _frozen_lenders,
    _split_uncut,
    _alone,
    _lost_disks,
    _flapping,
)
