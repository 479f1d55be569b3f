"""What is played, as chance draws it: storms of many faults at once, and scenes of a few that
belong together, by name. Pure but for the chance that comes in.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tools.nemesis.elector.faults import Draw
from tools.nemesis.pool.faults import LAN, NODE, PROCESS, SPLIT, WAN
from tools.nemesis.pool.judge.verdict import GRACE, WELL_BEFORE
from tools.nemesis.pool.testbed import NAMES

# Seconds: of faults in a storm; until a node that is off has been judged and its pods are gone.
SHORTEST, LONGEST = 1.0, 60.0
UNTIL_GONE = 135.0
# Until a whole site that is cut is lost, and its control workload gone; until a node is lost.
UNTIL_LOST = 75.0
FOUR_MINUTES, HALF_AN_HOUR = 240.0, 1800.0
# Until a node that is off while its neighbours were started again has been judged, and its pods are
# gone.
UNTIL_LATE = 200.0
# Between two members of a roll-out.
ROLLED = 6.0
# After which members report once a minute; less than what makes a host that lives a dead one.
LONG_TROUBLE, FROZEN_LONG = 310.0, 285.0
# After which nothing of an earlier play counts for what was well before.
UNTIL_WELL = WELL_BEFORE + GRACE + 5.0
# After which a borrower has given up a lender that stands still, and what it had sent.
HELD = 4.0
PAUSE = 6.0
GROUPS = (1, 1, 1, 2, 2, 3)


@dataclass(frozen=True)
class Cue:
    """A fault that begins so many seconds after the scene."""

    after: float
    draw: Draw


Cues = Sequence[Cue]


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
        kind = chance.choice(["server", "controller", "controller", "compaction"])
        return [Draw(kind, "cloud", min(seconds, 15.0), luck)]
    kinds = {"process": PROCESS, "lan": LAN, "split": SPLIT, "node": NODE}[family]
    return [Draw(chance.choice(sorted(kinds)), target, seconds, luck)]


def _dead_alone(chance: random.Random) -> Cues:
    """After a while in which all is well: so it has to be judged in time."""
    return [Cue(UNTIL_WELL, Draw("power off", chance.choice(NAMES), UNTIL_GONE, 0.0))]


def _reboot(chance: random.Random) -> Cues:
    """About as long as it takes to be judged: before, or within the seconds of its pods."""
    seconds = chance.uniform(40.0, 75.0)
    return [Cue(0.0, Draw("power off", chance.choice(NAMES), seconds, 0.0))]


def _site_cut(chance: random.Random, seconds: float = UNTIL_LOST) -> Cues:
    kind = chance.choice(["wan refused", "wan black hole"])
    return [Cue(chance.uniform(0.0, 2.0), Draw(kind, it, seconds, 0.0)) for it in NAMES]


def _site_cut_but_a_liar(chance: random.Random) -> Cues:
    """The one that the cloud hears says that the others are gone."""
    liar = chance.choice(NAMES)
    cut = [Cue(0.0, Draw("wan black hole", it, UNTIL_LOST, 0.0)) for it in NAMES if it != liar]
    return [Cue(0.0, Draw("liar", liar, UNTIL_LOST, 0.0)), *cut]


def _cut_and_neighbour(chance: random.Random) -> Cues:
    cut, other = chance.sample(NAMES, 2)
    kind = chance.choice(["member kill", "member freeze", "power off", "wan refused"])
    return [
        Cue(0.0, Draw("wan black hole", cut, UNTIL_LOST, 0.0)),
        Cue(chance.uniform(8.0, 25.0), Draw(kind, other, 30.0, 0.0)),
    ]


def _frozen_lenders(chance: random.Random) -> Cues:
    """Maybe with its heartbeat in their buffers."""
    dead, at = chance.choice(NAMES), chance.uniform(15.0, 26.0)
    frozen = chance.uniform(15.0, 40.0)
    return [
        Cue(0.0, Draw("wan black hole", dead, at + UNTIL_LOST, 0.0)),
        *(
            Cue(at - chance.uniform(0.0, HELD), Draw("member freeze", it, frozen, 0.0))
            for it in NAMES
            if it != dead
        ),
        Cue(at, Draw("power off", dead, UNTIL_LOST, 0.0)),
    ]


def _split_uncut(chance: random.Random) -> Cues:
    return [Cue(0.0, Draw("split uncut", "site", UNTIL_GONE, chance.random()))]


def _alone(chance: random.Random) -> Cues:
    """With a link: nothing is to happen to it."""
    kind = chance.choice(sorted(LAN))
    return [Cue(0.0, Draw(kind, chance.choice(NAMES), UNTIL_LOST, chance.random()))]


def _lost_disks(chance: random.Random) -> Cues:
    kind = chance.choice(["member lost disk", "relay lost disk"])
    return [Cue(chance.uniform(0.0, 5.0), Draw(kind, it, 5.0, 0.0)) for it in NAMES]


def _full_disks(chance: random.Random) -> Cues:
    """Then a link goes, or all of them."""
    full = [Cue(0.0, Draw("disk full", it, UNTIL_LOST, chance.random())) for it in NAMES]
    cut = [Cue(HELD, Draw("wan refused", it, UNTIL_LOST, 0.0)) for it in NAMES]
    return [*full, *(cut if chance.random() < 0.5 else cut[:1])]


def _wrong_clocks(chance: random.Random) -> Cues:
    """Of some; then one of the site is cut off, and borrows from another."""
    wrong = chance.sample(NAMES, chance.choice([1, 2, len(NAMES)]))
    clocks = [Cue(0.0, Draw("clock wrong", it, UNTIL_LOST, chance.random())) for it in wrong]
    return [*clocks, Cue(HELD, Draw("wan black hole", chance.choice(NAMES), UNTIL_LOST, 0.0))]


def _compacted(chance: random.Random) -> Cues:
    """While some are cut off: to go on where they were is too late for them."""
    names = chance.sample(NAMES, chance.choice([1, 2, len(NAMES)]))
    cut = [Cue(0.0, Draw("wan refused", it, 20.0, 0.0)) for it in names]
    return [*cut, Cue(15.0, Draw("compaction", "cloud", 1.0, 0.0))]


def _flapping(chance: random.Random) -> Cues:
    names = chance.sample(NAMES, chance.choice([1, 2, len(NAMES)]))
    return [Cue(0.0, Draw("wan flapping", it, 45.0, 0.0)) for it in names]


def _power_cut(chance: random.Random) -> Cues:
    """Of the whole site; one does not come back. Those that do have heard it before their start."""
    dead = chance.choice(NAMES)
    seconds = chance.uniform(5.0, 25.0)
    return [
        Cue(UNTIL_WELL, Draw("power off", it, UNTIL_LATE if it == dead else seconds, 0.0))
        for it in NAMES
    ]


def _rolled_out(chance: random.Random) -> Cues:
    """All members are started again, one after the other, and a node dies meanwhile."""
    names = chance.sample(NAMES, len(NAMES))
    dead, at = names.pop(), chance.uniform(0.0, ROLLED * len(NAMES))
    rolled = [
        Cue(UNTIL_WELL + ROLLED * number, Draw("member kill", it, 2.0, 0.0))
        for number, it in enumerate(names)
    ]
    return [*rolled, Cue(UNTIL_WELL + at, Draw("power off", dead, UNTIL_LATE, 0.0))]


def _firewall_and_cut(chance: random.Random) -> Cues:
    """It lives, and asks others for their links: nothing is to happen to it. Of one half of the
    times its member is frozen too, so that the cloud loses it."""
    name = chance.choice(NAMES)
    walled = [Cue(0.0, Draw("lan firewall", name, UNTIL_GONE, 0.0))]
    if chance.random() < 0.5:
        walled.append(Cue(HELD, Draw("member freeze", name, UNTIL_LOST, 0.0)))
    return [*walled, Cue(2 * HELD, Draw("wan black hole", name, UNTIL_LOST, 0.0))]


def _long_trouble(chance: random.Random) -> Cues:
    """Members report seldom by then; after it all links go, and the trouble goes on."""
    name = chance.choice(NAMES)
    kind = chance.choice(["lan alone", "member kill", "lan firewall", "member freeze"])
    trouble = Cue(0.0, Draw(kind, name, LONG_TROUBLE + UNTIL_LOST, chance.random()))
    cut = [Cue(LONG_TROUBLE, Draw("wan black hole", it, UNTIL_LOST, 0.0)) for it in NAMES]
    return [trouble, *cut]


def _frozen_and_cut(chance: random.Random) -> Cues:
    """For less than what makes one that is ill a dead one; some of its neighbours are frozen,
    too."""
    frozen = chance.sample(NAMES, chance.choice([1, 1, 2]))
    freezes = [Cue(0.0, Draw("member freeze", it, FROZEN_LONG, 0.0)) for it in frozen]
    at = chance.uniform(0.0, UNTIL_LOST)
    return [*freezes, Cue(at, Draw("wan black hole", frozen[0], FROZEN_LONG - at, 0.0))]


SCENES: Mapping[str, Callable[[random.Random], Cues]] = {
    "a node dies": _dead_alone,
    "a node reboots": _reboot,
    "the site is cut": _site_cut,
    "all are cut but a liar": _site_cut_but_a_liar,
    "a node is cut, a neighbour struck": _cut_and_neighbour,
    "a borrower dies, lenders are frozen": _frozen_lenders,
    "the site is split, one side cut": _split_uncut,
    "a node is alone in the LAN": _alone,
    "all lose their disks": _lost_disks,
    "links flap": _flapping,
    "disks are full": _full_disks,
    "clocks are wrong": _wrong_clocks,
    "history is compacted": _compacted,
    "the site loses power, one stays off": _power_cut,
    "members are rolled out, a node dies": _rolled_out,
    "a new firewall, and a link goes": _firewall_and_cut,
}
# Not drawn, but played when they are asked for.
LONG_SCENES: Mapping[str, Callable[[random.Random], Cues]] = {
    "minutes of trouble, and the site is cut": _long_trouble,
    "members are frozen for minutes, a link goes": _frozen_and_cut,
    "the site is cut for four minutes": lambda chance: _site_cut(chance, FOUR_MINUTES),
    "the site is cut for half an hour": lambda chance: _site_cut(chance, HALF_AN_HOUR),
}
