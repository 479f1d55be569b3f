"""A command line of flags with env twins: bad input is one line, and a flag wins over its twin.

Knows no flag and no meaning. Defaults are None to argparse, so that a twin can fill in before the
real default.
"""

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NoReturn, TypeVar

from edge_sidecars.runtime.values import BadInput

T = TypeVar("T")
Given = Mapping[str, str | list[str] | None]


class Parser(argparse.ArgumentParser):
    """Raises `BadInput` from `parse_args`; an unknown flag names the nearest known one."""

    def error(self, message: str) -> NoReturn:
        """One line instead of argparse's page of usage."""
        raise BadInput(f"{message}{self._hint(message)}; `{self.prog} --help` lists the flags")

    def twins(self, prefix: str) -> list[str]:
        """The variable of each flag."""
        return [prefix + action.dest.upper() for action in self._actions]

    def _hint(self, message: str) -> str:
        unknown = re.search(r"unrecognized arguments: (--?[\w-]+)", message)
        if unknown is None:
            return ""
        from difflib import get_close_matches

        near = get_close_matches(unknown[1], self._option_string_actions, n=1)
        return f" (did you mean {near[0]}?)" if near else ""


class Options:
    """One look-up order for every option: flag, env twin, default.

    An empty value is none: manifests leave variables empty rather than out. `prefix` is that of
    the twins; `given` is what was parsed, with lists for options that may be repeated.
    """

    def __init__(self, given: Given, environ: Mapping[str, str], *, prefix: str) -> None:
        self._given = given
        self._environ = environ
        self._prefix = prefix

    def text(self, name: str) -> str:
        """ "" where nothing was said."""
        value = self._given.get(name)
        return value if isinstance(value, str) else self._twin(name)

    def texts(self, name: str) -> list[str]:
        """Of an option that may be repeated; its twin has spaces between."""
        value = self._given.get(name)
        texts = value if isinstance(value, list) else self._twin(name).split()
        return [text for text in texts if text]

    def parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self.text(name)
        return named(name, parse, text) if text else default

    def choice(self, name: str, *choices: str) -> str:
        """The first choice is the default."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise BadInput(f"{flag(name)} {text!r}: choose one of {', '.join(choices)}")
        return text

    def among(self, *names: str) -> Iterator[str]:
        """Those of the options about which something was said, as it was said."""
        for name in names:
            told = self._given.get(name) or self._twin(name)
            if told:
                yield f"{flag(name)} {' '.join(told) if isinstance(told, list) else told}"

    def _twin(self, name: str) -> str:
        return self._environ.get(self._prefix + name.upper(), "")


def is_bare(
    parser: Parser,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    prefix: str,
    others: Collection[str] = (),
) -> bool:
    """Whether nothing at all says what to do: no flag, no twin, none of `others`, no pod. Prints
    the usage then, which is what somebody wants who tries an image."""
    told = {*parser.twins(prefix), *others, "KUBERNETES_SERVICE_HOST"}
    if arguments or any(environ.get(name) for name in told):
        return False
    parser.print_usage(sys.stderr)
    sys.stderr.write(
        f"{parser.prog}: no flag and no {prefix} variable says what to do, and this is no pod; "
        f"`{parser.prog} --help` lists the flags\n"
    )
    return True


def named(name: str, parse: Callable[[str], T], text: str) -> T:
    """Raises `BadInput` that begins with the flag."""
    try:
        return parse(text)
    except BadInput as error:
        raise BadInput(f"{flag(name)} {error}") from error


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")
