"""Metrics as they are measured, and their Prometheus text.

See https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

# Of one sample, where there are several.
Labels = tuple[str, ...]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Histogram:
    """How many values were at most each of `bounds`, which grow. Guarantee: a value costs one
    bisection, and no memory."""

    __slots__ = ("_counts", "_sum", "bounds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        # The last one: of values above all bounds.
        self._counts = [0] * (len(self.bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self.bounds, value)] += times
        self._sum += value * times

    def series(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Suffix of the name, label and value of each; counts are cumulative."""
        # Other threads may read: what is counted meanwhile is in none of the series.
        counts, total = tuple(self._counts), self._sum
        so_far = 0
        for bound, count in zip((*self.bounds, None), counts, strict=True):
            so_far += count
            yield "_bucket", {"le": "+Inf" if bound is None else f"{bound:.15g}"}, float(so_far)
        yield "_sum", {}, total
        yield "_count", {}, float(so_far)


@dataclass(frozen=True)
class Metric:
    """`samples`: label sets with their values; of a histogram, `histograms` with their labels."""

    name: str
    kind: Kind
    text: str
    samples: tuple[tuple[dict[str, str], float], ...] = ()
    histograms: tuple[tuple[dict[str, str], Histogram], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of its series, also where it has none yet."""
        if self.kind is Kind.HISTOGRAM:
            return tuple(f"{self.name}{suffix}" for suffix in ("_bucket", "_sum", "_count"))
        return (self.name,)

    def series(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Name, labels and value of each."""
        for labels, value in self.samples:
            yield self.name, labels, value
        for labels, histogram in self.histograms:
            for suffix, bound, value in histogram.series():
                yield self.name + suffix, labels | bound, value


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


def histogram(name: str, text: str, found: Iterable[tuple[dict[str, str], Histogram]]) -> Metric:
    """`found`: one for each set of labels."""
    return Metric(name, Kind.HISTOGRAM, text, histograms=tuple(found))


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
        for name, labels, value in metric.series():
            listed = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            series = f"{name}{{{listed}}}" if labels else name
            lines.append(f"{series} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
