"""Metrics as they are measured, and their Prometheus text.

See https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

# Of one sample, where there are several.
Labels = tuple[str, ...]
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


def measured(
    texts: Mapping[str, str], values: Mapping[str, float | Iterable[tuple[str | Labels, float]]]
) -> list[Metric]:
    """`texts`: by name, with labels as `name{label,…}`; names of counters end in `_total`.
    `values`: by name, one, or one for each value of the labels."""
    return [_of_table(declared, text, values) for declared, text in texts.items()]


def _of_table(
    declared: str, text: str, values: Mapping[str, float | Iterable[tuple[str | Labels, float]]]
) -> Metric:
    name, _, labels = declared.rstrip("}").partition("{")
    kind, value = Kind.COUNTER if name.endswith("_total") else Kind.GAUGE, values[name]
    if isinstance(value, int | float):
        return Metric(name, kind, text, (({}, float(value)),))
    samples = (((key,) if isinstance(key, str) else key, it) for key, it in value)
    names = labels.split(",")
    labelled = tuple((dict(zip(names, key, strict=True)), float(it)) for key, it in samples)
    return Metric(name, kind, text, labelled)


def render(metrics: Iterable[Metric]) -> str:
    lines = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {metric.text}")
        lines.append(f"# TYPE {metric.name} {metric.kind.value}")
        for labels, value in metric.samples:
            listed = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            series = f"{metric.name}{{{listed}}}" if labels else metric.name
            lines.append(f"{series} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
