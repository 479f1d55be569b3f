"""Metrics as they are measured, and their Prometheus text.

See https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True)
class Metric:
    """`samples`: label sets with their values."""

    name: str
    kind: Kind
    text: str
    samples: tuple[tuple[dict[str, str], float], ...]


def _metric(
    kind: Kind,
    name: str,
    text: str,
    value: float | Iterable[tuple[str, float]],
    *,
    label: str = "",
) -> Metric:
    if isinstance(value, int | float):
        return Metric(name, kind, text, (({}, float(value)),))
    return Metric(name, kind, text, tuple(({label: key}, float(it)) for key, it in value))


# With one value, or one for each value of `label`.
gauge = partial(_metric, Kind.GAUGE)
counter = partial(_metric, Kind.COUNTER)


def render(metrics: Iterable[Metric]) -> str:
    lines = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {metric.text}")
        lines.append(f"# TYPE {metric.name} {metric.kind.value}")
        for labels, value in metric.samples:
            told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{metric.name}{{{told}}} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
