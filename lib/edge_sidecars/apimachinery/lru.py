"""Answers to what is asked again and again, in bounded memory.

A client may ask in a megabyte, a different one each time: what is long is worked out each time.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Characters. Names, paths and selectors that programs ask with are shorter.
LONGEST: Final = 2048


def lru(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Of a pure function whose positional arguments are texts: they make up what is kept."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept = lru_cache(maxsize)(function)

        @wraps(function)
        def answer(*args: P.args, **kwargs: P.kwargs) -> T:
            for each in args:
                if isinstance(each, str) and len(each) > LONGEST:
                    return function(*args, **kwargs)
            return kept(*args, **kwargs)  # type: ignore[arg-type]

        return answer

    return decorate
