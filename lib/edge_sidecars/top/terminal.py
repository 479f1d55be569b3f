"""Components in a terminal, by rich: one panel each, as many beside each other as it is wide for.

Guarantees: a change is drawn within `PACE`; times run on without one. A terminal that is left looks
as before. What does not fit below is cut off.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from edge_sidecars.top.component_panels import drawn
from edge_sidecars.top.followed import Followed
from edge_sidecars.top.panels import BAD, WARN, clean, headline, line

# Seconds between two drawings: at least, and at most.
PACE: Final = 0.1
TICK: Final = 0.5
# Seconds in which each component is to answer for the first time.
PATIENCE: Final = 5.0
# Columns that a panel needs to be readable.
PANEL_WIDTH: Final = 76


class Terminal:
    def __init__(self, components: Sequence[Followed], console: Console | None = None) -> None:
        self._components = components
        self._console = Console(highlight=False) if console is None else console
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Something was heard."""
        self._news.set()

    async def show_once(self) -> int:
        """When each has answered, or `PATIENCE` is over: 0, or 1 if one has not."""
        deadline = time.monotonic() + PATIENCE
        while any(it.status is None and not it.problem for it in self._components):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            await self._wait(left)
        self._console.print(self.draw(time.monotonic(), is_live=False))
        return 0 if all(it.status is not None and not it.problem for it in self._components) else 1

    async def show_until(self, stopped: asyncio.Event) -> None:
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while not stopped.is_set():
                live.update(self.draw(time.monotonic(), is_live=True), refresh=True)
                wait = asyncio.ensure_future(stopped.wait())
                news = asyncio.ensure_future(self._wait(TICK))
                await asyncio.wait((wait, news), return_when=asyncio.FIRST_COMPLETED)
                for it in (wait, news):
                    it.cancel()
                if not stopped.is_set():
                    await asyncio.sleep(PACE)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    def draw(self, now: float, *, is_live: bool) -> RenderableType:
        panels = [self._panel(it, now) for it in self._components]
        columns = max(min(self._console.width // PANEL_WIDTH, len(panels)), 1)
        grid = Table.grid(expand=True)
        for _ in range(columns):
            grid.add_column(ratio=1)
        for first in range(0, len(panels), columns):
            grid.add_row(*panels[first : first + columns])
        if not is_live:
            return grid
        return Group(Text("edge-sidecars top: Ctrl-C ends it", "dim"), grid)

    def _panel(self, it: Followed, now: float) -> Panel:
        name = f"{it.component} at {it.address}" if it.component else it.address
        title = Text(f" {clean(name)} ", "bold")
        style = "red" if it.problem else "dim"
        return Panel(
            Group(*self._content(it, now)),
            title=title,
            title_align="left",
            border_style=style,
            box=box.ROUNDED,
        )

    def _content(self, it: Followed, now: float) -> list[RenderableType]:
        if it.status is None:
            return [headline(it.problem or "No answer yet", BAD if it.problem else WARN)]
        lag = it.age(now)
        found = drawn(it.component, it.status, wall=it.wall, lag=lag)
        if it.problem:
            found.insert(0, line(f"Old: {it.problem}; heard {lag:.0f} s ago", BAD))
        return found
