"""The elector's demo as tables: who leads, and what the edge knows."""

import time
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.demo.elector.edge import Edge
from tools.demo.elector.pod import RUNNING, Pod
from tools.demo.elector.state import DemoState
from tools.demo.elector.watcher import Document
from tools.harness.controlplane.clients.answer import boottime

# Characters of the longest text of each column; the reason gets the rest.
COLUMNS = {"pod": 5, "role": 7, "valid for": 9, "token": 6, "main": 14}
EDGE_COLUMNS = {"edge": 5, "link": 7, "relay": 10}
KEYS = "keys: m kill main · k kill leader · p cut it off · r roll all · e cut an edge · q end"


def picture(state: DemoState) -> Sequence[RenderableType]:
    return (
        pods_table(state),
        edge_table(state.edge),
        Text(f"▸ {state.runner.doing}", style="yellow"),
    )


def pods_table(state: DemoState) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    for title, width in COLUMNS.items():
        table.add_column(title, width=width, no_wrap=True)
    table.add_column("reason", ratio=1, no_wrap=True, overflow="ellipsis")
    for pod in state.pods:
        table.add_row(*_cells(state, pod), style=_style(state, pod))
    return table


def _cells(state: DemoState, pod: Pod) -> tuple[str, str, str, str, str, str]:
    elector, work = state.watcher.elector(pod), _work(state.watcher.main(pod))
    if elector is None:
        return pod.name, "gone", "", "", work, pod.fate
    valid_until = elector["validUntil"]
    remaining = max(valid_until - boottime(), 0.0) if elector["isLeader"] else None
    fate = "" if pod.fate == RUNNING else f"{pod.fate}: "
    return (
        pod.name,
        elector["role"],
        "" if remaining is None else f"{remaining:.1f} s",
        str(elector["fencingToken"] or ""),
        work,
        fate + elector["reason"].replace(elector["holder"] or " ", elector["holderPod"] or " "),
    )


def _work(main: Document | None) -> str:
    if main is None:
        return "gone"
    return f"working ({main['units']})" if main["working"] else "idle"


def _style(state: DemoState, pod: Pod) -> str:
    elector = state.watcher.elector(pod)
    if elector is None or pod.fate != RUNNING:
        return "red"
    return "bold green" if elector["isLeader"] else ""


def edge_table(edge: Edge) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    for title, width in EDGE_COLUMNS.items():
        table.add_column(title, width=width, no_wrap=True)
    table.add_column("what its program knows", ratio=1, no_wrap=True, overflow="ellipsis")
    link = "cut" if edge.is_cut else "up"
    table.add_row("node", link, _relay(edge), _program(edge), style="red" if edge.is_cut else "")
    return table


def _relay(edge: Edge) -> str:
    if edge.is_killed:
        return "killed"
    if edge.is_link_up is None:
        return "starting"
    return "in contact" if edge.is_link_up else "on its own"


def _program(edge: Edge) -> str:
    since = edge.follower.watching_since
    watch = "no watch" if since is None else f"watching for {time.monotonic() - since:.0f} s"
    known = ", ".join(
        f"{name}={item['data']['revision']}" for name, item in sorted(edge.follower.objects.items())
    )
    return f"{known or 'nothing'}; {watch}, {edge.follower.lists} list"
