"""Pictures in the documents: an SVG drawn from boxes and arrows in a TOML file beside it.

The TOML has `size`, `title`, `box` (`id`, `kind`, `at`, `size`, `text`), `arrow` (`from` and `to`:
box, side and fraction of that side; `text` to the right of its middle, `dashed`). Arrows lead from
the one that asks to the one that answers. Colours follow the reader's choice of light or dark.
`title` is the picture's alternative text; `{lease}` and the like are durations of the flags.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from edge_sidecars.runtime.cli.options import declared
from elector_sidecar.config.config import Config as ElectorConfig
from elector_sidecar.core.timing import MARGIN, TAKEOVER_JITTER, Timing

FOLDER = "docs/images"
# Fill and stroke, on a light and on a dark page.
_KINDS = {
    "group": (("#f6f8fa", "#8c959f"), ("#161b22", "#6e7681")),
    "cut": (("#ffebe9", "#cf222e"), ("#25171c", "#f85149")),
    "main": (("#ffffff", "#57606a"), ("#0d1117", "#8b949e")),
    "sidecar": (("#ddf4ff", "#0969da"), ("#0c2d6b", "#58a6ff")),
    "server": (("#fff8c5", "#9a6700"), ("#341a00", "#d29922")),
}
# Their text is a title at the top left rather than in the middle.
_TITLED = ("group", "cut")
_INK, _GROUND = ("#24292f", "#e6edf3"), ("#ffffff", "#0d1117")
_LINE = 18
_TIMING = Timing()
DURATIONS = {
    "lease": f"{_TIMING.lease_duration:g} s",
    "validity": f"{_TIMING.validity:g} s",
    "margin": f"{MARGIN:g} s",
    "jitter": f"{TAKEOVER_JITTER:g} s",
    "takeover": f"{_TIMING.lease_duration + TAKEOVER_JITTER:g} s",
    "health": str(
        next(it.default for _, it in declared(ElectorConfig) if it.name == "health_interval")
    ),
}


@dataclass(frozen=True)
class _Box:
    kind: str
    x: int
    y: int
    width: int
    height: int
    text: tuple[str, ...]

    def point(self, side: str, fraction: float) -> tuple[float, float]:
        """Raises KeyError for a side that a box has not."""
        along = (self.x + self.width * fraction, self.y + self.height * fraction)
        return {
            "top": (along[0], self.y),
            "bottom": (along[0], self.y + self.height),
            "left": (self.x, along[1]),
            "right": (self.x + self.width, along[1]),
        }[side]


def pictures(root: Path) -> dict[str, str]:
    """The SVG of each TOML file, by its name in the repository."""
    sources = sorted((root / FOLDER).glob("*.toml"))
    return {
        f"{FOLDER}/{it.stem}.svg": drawn(tomllib.loads(it.read_text(encoding="utf-8")))
        for it in sources
    }


def drawn(source: Mapping[str, Any]) -> str:
    """Raises KeyError for an arrow from or to a box that is not there."""
    width, height = source["size"]
    boxes = {it["id"]: _box(it) for it in source["box"]}
    title = escape(titled(source))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img" font-family="sans-serif"'
            ' font-size="14">',
            f"<title>{title}</title>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8"'
            ' markerHeight="8" orient="auto"><path d="M0 0L10 5L0 10z" class="ink"/>'
            "</marker></defs>",
            f"<style>{_style(0)}@media(prefers-color-scheme:dark){{{_style(1)}}}</style>",
            f'<rect width="{width}" height="{height}" rx="8" class="ground"/>',
            *(_drawn_box(it) for it in boxes.values()),
            *(_drawn_arrow(it, boxes) for it in source["arrow"]),
            "</svg>\n",
        ]
    )


def titled(source: Mapping[str, Any]) -> str:
    """The alternative text."""
    return str(source["title"]).format_map(DURATIONS)


def _style(page: int) -> str:
    """Colours of a light (0) or a dark page (1)."""
    kinds = "".join(
        f".{name}{{fill:{colours[page][0]};stroke:{colours[page][1]}}}"
        for name, colours in _KINDS.items()
    )
    ink = f".ink,text{{fill:{_INK[page]}}}line{{stroke:{_INK[page]}}}"
    return f"{kinds}{ink}.ground{{fill:{_GROUND[page]}}}"


def _box(source: Mapping[str, Any]) -> _Box:
    (x, y), (width, height) = source["at"], source["size"]
    text = tuple(str(it).format_map(DURATIONS) for it in source["text"])
    return _Box(source["kind"], x, y, width, height, text)


def _drawn_box(box: _Box) -> str:
    rect = (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"'
        f' class="{box.kind}"/>'
    )
    if box.kind in _TITLED:
        text = _lines(box.text, box.x + 20, box.y + 26, anchor="start", is_headed=True)
    else:
        first = box.y + box.height / 2 - _LINE * (len(box.text) - 1) / 2 + 5
        text = _lines(box.text, box.x + box.width / 2, first, anchor="middle", is_headed=True)
    return "\n".join([rect, *text])


def _drawn_arrow(source: Mapping[str, Any], boxes: Mapping[str, _Box]) -> str:
    (x1, y1), (x2, y2) = (
        boxes[name].point(side, fraction) for name, side, fraction in (source["from"], source["to"])
    )
    dashes = ' stroke-dasharray="7 5"' if source.get("dashed") else ""
    text = source["text"]
    x, y = (x1 + x2) / 2 + 12, (y1 + y2) / 2 - _LINE * (len(text) - 1) / 2 + 5
    line = (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
        f' stroke-width="1.5"{dashes} marker-end="url(#tip)"/>'
    )
    return "\n".join([line, *_lines(text, x, y, anchor="start")])


def _lines(
    text: tuple[str, ...], x: float, y: float, *, anchor: str, is_headed: bool = False
) -> list[str]:
    """`is_headed`: the first line is bold."""
    weight = ' font-weight="bold"'
    return [
        f'<text x="{x:g}" y="{y + number * _LINE:g}" text-anchor="{anchor}"'
        f"{weight if is_headed and not number else ''}>{escape(line)}</text>"
        for number, line in enumerate(text)
    ]
