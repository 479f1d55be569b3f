"""What an edge node sees of an outage: its link is cut, its relay killed, the cloud goes on.

Guarantees: begins with the edge as up to date as the cloud, and ends so; what is compared are
resourceVersions, so "the same" means the very same objects. Raises `Failed` where not.
"""

import time

from tools.demo.elector.edge import Listing
from tools.demo.elector.state import DemoState
from tools.demo.runner import Failed, Result


def outage(state: DemoState) -> None:
    """Three results: cut, killed while cut, healed."""
    before = state.cloud.versions()
    state.runner.wait_for(
        lambda: _knows(state, before) or None, "the edge to know what the cloud has"
    )
    lists = state.edge.follower.lists
    _cut(state, before)
    state.runner.sleep(state.runner.pause)
    _kill(state, before)
    state.runner.sleep(state.runner.pause)
    _heal(state, before)
    if state.edge.follower.lists != lists:
        raise Failed("edge: its program had to list again, its watch could not go on")


def _cut(state: DemoState, before: dict[str, str]) -> None:
    edge, watches = state.edge, state.edge.follower.watches
    edge.cut()
    state.runner.say("edge: link cut, without a word to anybody")
    at_once = _listed(state, before)
    state.runner.wait_for(lambda: edge.is_link_up is False or None, "the relay to notice the cut")
    later = _listed(state, before)
    if edge.follower.watches != watches or edge.follower.watching_since is None:
        raise Failed("edge: the watch of its program did not stay open")
    state.runner.say(
        f"edge: {len(before)} ConfigMaps listed in {at_once.took:.2f} s at once, "
        f"{later.took:.2f} s when the cut was noticed"
    )
    state.runner.note(Result("cut an edge's link", "lists on, watch stays open", took=at_once.took))


def _kill(state: DemoState, before: dict[str, str]) -> None:
    edge, watches = state.edge, state.edge.follower.watches
    edge.kill()
    state.runner.say("edge: relay killed and restarted, the link still cut")
    started = time.monotonic()
    edge.start()
    state.runner.wait_for(edge.list, "an answer of the restarted relay")
    took = time.monotonic() - started
    _listed(state, before)
    state.runner.wait_for(
        lambda: (edge.follower.watches > watches and edge.follower.watching_since) or None,
        "the edge's program to watch again",
    )
    state.runner.note(Result("kill its relay, still cut", "the same, from its disk", took=took))


def _heal(state: DemoState, before: dict[str, str]) -> None:
    edge = state.edge
    change = state.cloud.change()
    state.runner.say(
        f"cloud: {change.changed} is revision {change.revision}, {change.deleted} deleted, "
        f"{change.created} created"
    )
    state.runner.sleep(state.runner.pause)
    if edge.follower.versions != before:
        raise Failed("edge: it knows of changes though its link is cut")
    after = state.cloud.versions()
    started = time.monotonic()
    edge.heal()
    state.runner.say("edge: link healed")
    state.runner.wait_for(
        lambda: _knows(state, after) or None, "the edge's watch to tell the changes"
    )
    told = edge.follower.news(since=started)
    if {(news.type, news.name) for news in told} != set(change.events()):
        raise Failed(f"edge: the watch told {told}, not each change once")
    state.runner.note(
        Result("changes, then heal its link", "watch told all", took=told[-1].at - started)
    )


def _knows(state: DemoState, versions: dict[str, str]) -> bool:
    """Whether the program was told all of it, and anybody who lists is."""
    if state.edge.follower.watching_since is None or state.edge.follower.versions != versions:
        return False
    listing = state.edge.list()
    return listing is not None and listing.versions == versions


def _listed(state: DemoState, versions: dict[str, str]) -> Listing:
    listing = state.edge.list()
    if listing is None:
        raise Failed("edge: its relay does not answer a list")
    if listing.versions != versions:
        raise Failed(f"edge: its relay lists {listing.versions}, not {versions}")
    return listing
