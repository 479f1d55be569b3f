"""What an edge node sees of an outage: its link is cut, its relay killed, the cloud goes on.

Guarantees: begins with the edge as up to date as the cloud, and ends so; what is compared are
resourceVersions, so "the same" means the very same objects. Raises `Failed` where not.
"""

import time

from tools.demo.edge import Listing
from tools.demo.scene import Scene
from tools.demo.stage import Failed, Result


def outage(scene: Scene) -> None:
    """Three results: cut, killed while cut, healed."""
    before = scene.cloud.versions()
    scene.stage.wait_for(
        lambda: _knows(scene, before) or None, "the edge to know what the cloud has"
    )
    lists = scene.edge.follower.lists
    _cut(scene, before)
    scene.stage.sleep(scene.stage.pause)
    _kill(scene, before)
    scene.stage.sleep(scene.stage.pause)
    _heal(scene, before)
    if scene.edge.follower.lists != lists:
        raise Failed("edge: its program had to list again, its watch could not go on")


def _cut(scene: Scene, before: dict[str, str]) -> None:
    edge, watches = scene.edge, scene.edge.follower.watches
    edge.cut()
    scene.stage.say("edge: link cut, without a word to anybody")
    at_once = _listed(scene, before)
    scene.stage.wait_for(lambda: edge.is_link_up is False or None, "the relay to notice the cut")
    later = _listed(scene, before)
    if edge.follower.watches != watches or edge.follower.watching_since is None:
        raise Failed("edge: the watch of its program did not stay open")
    scene.stage.say(
        f"edge: {len(before)} ConfigMaps listed in {at_once.took:.2f} s at once, "
        f"{later.took:.2f} s when the cut was noticed"
    )
    scene.stage.note(Result("cut an edge's link", "lists on, watch stays open", took=at_once.took))


def _kill(scene: Scene, before: dict[str, str]) -> None:
    edge, watches = scene.edge, scene.edge.follower.watches
    edge.kill()
    scene.stage.say("edge: relay killed and restarted, the link still cut")
    started = time.monotonic()
    edge.start()
    scene.stage.wait_for(edge.list, "an answer of the restarted relay")
    took = time.monotonic() - started
    _listed(scene, before)
    scene.stage.wait_for(
        lambda: (edge.follower.watches > watches and edge.follower.watching_since) or None,
        "the edge's program to watch again",
    )
    scene.stage.note(Result("kill its relay, still cut", "the same, from its disk", took=took))


def _heal(scene: Scene, before: dict[str, str]) -> None:
    edge = scene.edge
    change = scene.cloud.change()
    scene.stage.say(
        f"cloud: {change.changed} is revision {change.revision}, {change.deleted} deleted, "
        f"{change.created} created"
    )
    scene.stage.sleep(scene.stage.pause)
    if edge.follower.versions != before:
        raise Failed("edge: it knows of changes though its link is cut")
    after = scene.cloud.versions()
    started = time.monotonic()
    edge.heal()
    scene.stage.say("edge: link healed")
    scene.stage.wait_for(
        lambda: _knows(scene, after) or None, "the edge's watch to tell the changes"
    )
    told = edge.follower.news(since=started)
    if {(news.type, news.name) for news in told} != set(change.events()):
        raise Failed(f"edge: the watch told {told}, not each change once")
    scene.stage.note(
        Result("changes, then heal its link", "watch told all", took=told[-1].at - started)
    )


def _knows(scene: Scene, versions: dict[str, str]) -> bool:
    """Whether the program was told all of it, and anybody who lists is."""
    if scene.edge.follower.watching_since is None or scene.edge.follower.versions != versions:
        return False
    listing = scene.edge.list()
    return listing is not None and listing.versions == versions


def _listed(scene: Scene, versions: dict[str, str]) -> Listing:
    listing = scene.edge.list()
    if listing is None:
        raise Failed("edge: its relay does not answer a list")
    if listing.versions != versions:
        raise Failed(f"edge: its relay lists {listing.versions}, not {versions}")
    return listing
