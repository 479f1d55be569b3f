"""What an evaluation says of the new model and of the one that serves.

Owns which numbers the deploy trigger is asked with: each metric of the new model by its name, and
by `<name>_delta` how much it is above the old one's, element by element. A metric that only one of
them has gives no delta; what is no number gives nothing.
"""

from collections.abc import Mapping, Sequence

from lc.core.learning.objects.trigger import Numbers


def comparison(
    new: Mapping[str, object] | None, old: Mapping[str, object] | None
) -> dict[str, float | Sequence[float]]:
    after, before = _numbers(new), _numbers(old)
    compared: dict[str, float | Sequence[float]] = dict(after)
    for name, values in after.items():
        if name in before:
            compared[f"{name}_delta"] = tuple(
                value - former for value, former in zip(values, before[name], strict=False)
            )
    return compared


def training_numbers(samples: int) -> Numbers:
    return {"num_of_samples": float(samples)}


def _numbers(metrics: Mapping[str, object] | None) -> dict[str, tuple[float, ...]]:
    read: dict[str, tuple[float, ...]] = {}
    for name, value in (metrics or {}).items():
        values = tuple(map(_number, value if isinstance(value, list | tuple) else (value,)))
        if all(each is not None for each in values):
            read[name] = tuple(each for each in values if each is not None)
    return read


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
