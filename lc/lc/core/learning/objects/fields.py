"""Fields of objects that came as JSON; one reason in words for whatever is not as it must be.

Knows no kind and no schema. What is missing is told apart from what has another type.
"""

from collections.abc import Mapping, Sequence


class MalformedJob(ValueError):
    """The object cannot be worked with; the message names the field and what stands there."""


def mapping_at(found: Mapping[str, object], *path: str) -> Mapping[str, object] | None:
    """None: not there."""
    value = _at(found, path)
    if value is None or isinstance(value, Mapping):
        return value
    raise MalformedJob(f"{'.'.join(path)} is no object")


def list_at(found: Mapping[str, object], *path: str) -> Sequence[object]:
    value = _at(found, path)
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    raise MalformedJob(f"{'.'.join(path)} is no list")


def text_at(found: Mapping[str, object], *path: str) -> str:
    """Empty: not there."""
    value = _at(found, path)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise MalformedJob(f"{'.'.join(path)} is no text")


def number_at(found: Mapping[str, object], *path: str, default: float | None = None) -> float:
    """Numbers in quotes count: Sedna reads them too."""
    value = _at(found, path)
    if value is None and default is not None:
        return default
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise MalformedJob(f"{'.'.join(path)} is {value!r}, not a number")


def flag_at(found: Mapping[str, object], *path: str) -> bool:
    value = _at(found, path)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise MalformedJob(f"{'.'.join(path)} is neither true nor false")


def _at(found: Mapping[str, object], path: tuple[str, ...]) -> object:
    value: object = found
    for name in path:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise MalformedJob(f"{'.'.join(path)}: {name} lies in something that is no object")
        value = value.get(name)
    return value
