"""A pool as a table: what the cloud says of each node, and what the node says of itself."""

import time
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.demo.pool.cloud_state import DEAD_NODE, SITE_CUT, WELL
from tools.demo.pool.edge_site import OUTSIDE
from tools.demo.pool.node import SiteNode
from tools.demo.pool.state import PoolState

KEYS = "keys: c cut a node · k kill one · s cut the site · h heal · q end"
# Characters of the longest text of each column; the last one gets the rest.
COLUMNS = {
    "node": 7,
    "in the cloud": 12,
    "role": 8,
    "link": 6,
    "Lease": 6,
    "WAN": 9,
    "now": 9,
}
KIB = 1024


def picture(state: PoolState) -> Sequence[RenderableType]:
    return (_nodes(state), Text(f"▸ {state.runner.doing}", style="yellow"))


def _nodes(state: PoolState) -> Table:
    shown = Table(box=None, pad_edge=False, expand=True)
    for title, width in COLUMNS.items():
        shown.add_column(title, width=width, no_wrap=True)
    shown.add_column("shop", ratio=1, no_wrap=True, overflow="ellipsis")
    for name, node in state.site.nodes.items():
        total, rate = state.observer.wan(name)
        shown.add_row(
            name,
            state.observer.state(name),
            *_member(state, node),
            _age(state, name),
            _bytes(total),
            f"{_bytes(rate)}/s",
            _pods(len(state.pods.running(name))),
            style=_style(state.observer.state(name)),
        )
    for name in OUTSIDE:
        outside = ("", "", _age(state, name), "", "", "outside")
        shown.add_row(name, state.observer.state(name), *outside)
    return shown


def _member(state: PoolState, node: SiteNode) -> tuple[str, str]:
    """Role, and link."""
    if node.is_killed:
        return "", "off"
    said = state.observer.said(node.name)
    if said is None:
        return "starting", ""
    link = f"via {said['via']}" if said["via"] else str(said["link"])
    return str(said["role"]), link


def _age(state: PoolState, name: str) -> str:
    renewed = state.observer.seen(name).renewed
    return f"{max(time.time() - renewed, 0.0):.0f} s" if renewed else ""


def _pods(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}" if count else ""


def _bytes(value: float) -> str:
    return f"{value:.0f} B" if value < KIB else f"{value / KIB:.1f} KiB"


def _style(state: str) -> str:
    if state in (DEAD_NODE, SITE_CUT):
        return "red"
    return "" if state in (WELL, "") else "yellow"
