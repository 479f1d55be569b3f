"""Who owned the address when, and whether they might: pure, in seconds on CLOCK_BOOTTIME.

Two nodes must never own it at once. A node may own it only on the strength of its elector's 200s:
not after the end of the newest one's validity, and no longer after it than the checks take.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from tools.harness.pods.observers.observer import Ready


@dataclass(frozen=True)
class Spell:
    """`node` owned the address from `since` on, until `until`; infinity: it still does."""

    node: str
    since: float
    until: float


@dataclass(frozen=True)
class Finding:
    at: float
    what: str


def spells(lines: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Spell]:
    """Of what each node's kernel told (watch_address.py), in the order of their beginning."""
    found = []
    for node, told in lines.items():
        since = None
        for line in told:
            if line["owned"] and since is None:
                since = line["at"]
            elif not line["owned"] and since is not None:
                found.append(Spell(node, since, line["at"]))
                since = None
        if since is not None:
            found.append(Spell(node, since, inf))
    return sorted(found, key=lambda each: each.since)


def owners(found: Sequence[Spell], at: float) -> list[str]:
    return [each.node for each in found if each.since <= at < each.until]


def shared(found: Sequence[Spell]) -> list[Finding]:
    """Times at which two nodes owned the address."""
    return [
        Finding(second.since, f"two owners: {first} and {second}")
        for index, second in enumerate(found)
        for first in found[:index]
        if first.until > second.since and first.node != second.node
    ]


def seen_twice(asked: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Times at which two answered who was asked for (ask_network.py)."""
    return [
        Finding(line["at"], f"two answers: {line['owners']}")
        for line in asked
        if len(line["owners"]) > 1
    ]


def unfounded(found: Sequence[Spell], answers: Sequence[Ready], *, hold: float) -> list[Finding]:
    """Spells that outlasted what their elector's 200s allow. `hold`: for how long an owner may go
    by a 200 that was given."""
    findings = []
    for spell in found:
        own = [each for each in answers if each.pod == spell.node]
        before = [each for each in own if each.sent <= spell.since]
        during = [each for each in own if spell.since < each.sent < spell.until]
        if not before:
            findings.append(Finding(spell.since, f"an owner that never led: {spell}"))
            continue
        newest = before[-1]
        # The last one may still be on its way: what follows is not known.
        ends = [*(each.sent for each in during), spell.until if spell.until < inf else 0.0]
        for following, end in zip([*during, None], ends, strict=True):
            allowed = min(newest.received + hold, newest.valid_until)
            if end > allowed:
                what = f"an owner {end - allowed:.3f}s after its lead: {spell}, last {newest}"
                findings.append(Finding(allowed, what))
            newest = following or newest
    return findings
