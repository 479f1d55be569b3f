"""What people see: a live picture on a terminal, plain lines everywhere else.

Both have the same face: `open` shows a picture from now on, `say` tells one event. A terminal that
cannot move its cursor (TERM=dumb), a pipe and a log get lines. Knows no demo.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tools.demo.runner import Result

Draw = Callable[[], Sequence[RenderableType]]

REFRESH_PER_SECOND = 5
# Lines of events below the table, so that all fits into 24 lines.
EVENTS = 5


class Screen(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def open(self, draw: Draw, keys: str) -> None:
        """Shows this from now on; `keys`: what they do, "" where there are none."""

    def say(self, text: str) -> None:
        """Tells one event."""


class Display:
    """The console, and whether it can show a picture that lives."""

    def __init__(self, *, is_plain: bool) -> None:
        self.console = Console()
        is_lively = self.console.is_terminal and not self.console.is_dumb_terminal
        self.is_live = is_lively and not is_plain

    def screen(self, headline: str) -> Screen:
        """Lines begin with the headline at once."""
        if self.is_live:
            return LiveTable(self.console, headline)
        self.console.print(headline, soft_wrap=True)
        return Lines()


class Lines:
    """One line per event, with the seconds since the start."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def open(self, draw: Draw, keys: str) -> None:
        if keys:
            self.say(keys)

    def say(self, text: str) -> None:
        # In one piece: threads tell events, and `print` writes what ends a line by itself.
        line = f"{time.monotonic() - self._started_at:6.1f}s  {text}\n"
        print(line, end="", flush=True)


class LiveTable:
    """Redraws what goes on, and the last events."""

    def __init__(self, console: Console, headline: str) -> None:
        self._headline = headline
        self._draw_parts: Draw = tuple
        self._keys = ""
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

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def open(self, draw: Draw, keys: str) -> None:
        self._keys = keys
        self._draw_parts = draw

    def say(self, text: str) -> None:
        self._events.append(f"{time.monotonic() - self._started_at:6.1f}s  {text}")

    def _draw(self) -> Group:
        parts: list[RenderableType] = [
            Text(self._headline, style="bold", no_wrap=True, overflow="ellipsis"),
            *self._draw_parts(),
            Text("\n".join(self._events), style="dim", no_wrap=True, overflow="ellipsis"),
        ]
        if self._keys:
            parts.append(Text(self._keys, style="cyan", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)


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
