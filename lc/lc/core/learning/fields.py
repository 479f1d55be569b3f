"""Fields of objects that came as JSON; one reason in words for whatever is not as it must be.

Knows no kind and no schema. What is missing differs from what has another type.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from edge_sidecars.sedna_api.core.file_url import InvalidUrl, parse_url


class MalformedJob(ValueError):
    """The object cannot be worked with; the message names the field and what is there."""


def mapping_at(found: Mapping[str, object], *path: str) -> Mapping[str, object] | None:
    """None: not there."""
    value: Mapping[str, object] | None = _typed(found, path, Mapping, "is no object")
    return value


def list_at(found: Mapping[str, object], *path: str) -> Sequence[object]:
    """Empty: not there."""
    return _typed(found, path, list | tuple, "is no list") or ()


def text_at(found: Mapping[str, object], *path: str) -> str:
    """Empty: not there."""
    return _typed(found, path, str, "is no text") or ""


def url_at(found: Mapping[str, object], *path: str) -> str:
    """Of a file or a directory; one that is missing is none."""
    text = text_at(found, *path)
    if not text:
        raise MalformedJob(f"{'.'.join(path)} is empty")
    try:
        return parse_url(text).text
    except InvalidUrl as error:
        raise MalformedJob(f"InvalidSpec: {'.'.join(path)}: {error}") from error


def number_at(found: Mapping[str, object], *path: str, default: float | None = None) -> float:
    """Numbers in quotes count: Sedna reads them too."""
    value = _at(found, path)
    if value is None and default is not None:
        return default
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            number = float(value)
            if math.isfinite(number):
                return number
    except (ValueError, OverflowError):
        pass
    raise MalformedJob(f"{'.'.join(path)} is {value!r:.80}, not a number")


def flag_at(found: Mapping[str, object], *path: str) -> bool:
    return bool(_typed(found, path, bool, "is neither true nor false"))


def _typed(found: Mapping[str, object], path: tuple[str, ...], of: Any, words: str) -> Any:
    value = _at(found, path)
    if value is None or isinstance(value, of):
        return value
    raise MalformedJob(f"{'.'.join(path)} {words}")


def _at(found: Mapping[str, object], path: tuple[str, ...]) -> object:
    value: object = found
    for name in path:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise MalformedJob(f"{'.'.join(path)}: {name} lies in something that is no object")
        value = value.get(name)
    return value
