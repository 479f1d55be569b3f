"""What people see: a live table on a terminal, plain lines everywhere else.

Both have the same face: `open` shows a scene from now on, `say` tells one event. A terminal that
cannot move its cursor (TERM=dumb), a pipe and a log get lines.
"""

import time
from collections import deque
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.edge import Edge
from demo.pod import RUNNING, Pod
from demo.scene import Result, Scene
from demo.watcher import Document
from tests.pods.elector import boottime

REFRESH_PER_SECOND = 5
# Lines of events below the table, so that all fits into 24 lines.
EVENTS = 5
# Characters of the longest text of each column; the reason gets the rest.
COLUMNS = {"pod": 5, "role": 7, "valid for": 9, "token": 6, "main": 14}
EDGE_COLUMNS = {"edge": 5, "link": 7, "relay": 10}
KEYS = "keys: m kill main · k kill leader · p cut it off · r roll all · e cut an edge · q end"


class Screen(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...

    def open(self, scene: Scene, *, has_keys: bool) -> None:
        """Shows this scene from now on."""

    def say(self, text: str) -> None:
        """Tells one event."""


class Lines:
    """One line per event, with the seconds since the start."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        pass

    def open(self, scene: Scene, *, has_keys: bool) -> None:
        if has_keys:
            self.say(KEYS)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._started_at:6.1f}s  {text}", flush=True)


class LiveTable:
    """Redraws who leads, what goes on and the last events."""

    def __init__(self, console: Console, headline: str) -> None:
        self._headline = headline
        self._scene: Scene | None = None
        self._has_keys = False
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._started_at = time.monotonic()
        self._live = Live(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=REFRESH_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._live.stop()

    def open(self, scene: Scene, *, has_keys: bool) -> None:
        self._has_keys = has_keys
        self._scene = scene

    def say(self, text: str) -> None:
        self._events.append(f"{time.monotonic() - self._started_at:6.1f}s  {text}")

    def _draw(self) -> Group:
        parts: list[Table | Text] = [
            Text(self._headline, style="bold", no_wrap=True, overflow="ellipsis")
        ]
        if self._scene is not None:
            parts.append(pods_table(self._scene))
            parts.append(edge_table(self._scene.edge))
            parts.append(Text(f"▸ {self._scene.doing}", style="yellow"))
        parts.append(Text("\n".join(self._events), style="dim", no_wrap=True, overflow="ellipsis"))
        if self._has_keys:
            parts.append(Text(KEYS, style="cyan", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)


def pods_table(scene: Scene) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    for title, width in COLUMNS.items():
        table.add_column(title, width=width, no_wrap=True)
    table.add_column("reason", ratio=1, no_wrap=True, overflow="ellipsis")
    for pod in scene.pods:
        table.add_row(*_cells(scene, pod), style=_style(scene, pod))
    return table


def _cells(scene: Scene, pod: Pod) -> tuple[str, str, str, str, str, str]:
    elector, work = scene.watcher.elector(pod), _work(scene.watcher.main(pod))
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


def _style(scene: Scene, pod: Pod) -> str:
    elector = scene.watcher.elector(pod)
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


def summary_table(results: list[Result]) -> Table:
    table = Table(title="What happened", title_justify="left", box=None, pad_edge=False)
    for title in ("step", "outcome"):
        table.add_column(title)
    for title in ("took", "nobody led for"):
        table.add_column(title, justify="right")
    for result in results:
        table.add_row(
            result.title,
            f"FAILED: {result.problem}" if result.problem else result.detail,
            _seconds(result.took),
            _seconds(result.vacant),
            style="red" if result.problem else "",
        )
    return table


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
