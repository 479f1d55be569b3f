"""A command line whose failures are one line each, with the remedy. Knows no option.

argparse prints its page of usage for each mistake, and hides what a converter says of a value.
"""

import argparse
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn, TypeVar

from edge_sidecars.runtime.cli.values import BadInput

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """Raises `BadInput` from `parse_args`; an unknown flag or sub-command names the nearest known
    one. No flag may be abbreviated: a later release could add another one of that beginning."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **arguments})

    def error(self, message: str) -> NoReturn:
        """One line instead of argparse's page of usage."""
        line = " ".join(message.split())
        raise BadInput(f"{line}{self._hint(line)}; `{self.prog} --help` lists the flags")

    def twins(self, prefix: str) -> list[str]:
        """The variable of each flag."""
        dests = (action.dest for action in self._actions)
        return [prefix + dest.upper() for dest in dests if dest not in ("help", "version")]

    def _hint(self, message: str) -> str:
        unknown = re.search(r"unrecognized arguments: (--?[\w-]+)", message)
        command = re.search(r"argument COMMAND: invalid choice: '([^']*)'", message)
        if unknown is not None:
            return did_you_mean(unknown[1], [*self._flags()])
        if command is not None:
            commands = (it.choices or () for it in self._actions if it.metavar == "COMMAND")
            return did_you_mean(command[1], [str(name) for names in commands for name in names])
        return ""

    def _flags(self) -> Iterator[str]:
        """Its own, and those of its sub-commands."""
        yield from self._option_string_actions
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    yield from parser._option_string_actions


def did_you_mean(word: str, known: Collection[str]) -> str:
    """ " (did you mean X?)", or "" where no known word is close."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """For `type` of argparse, which hides the text of a `ValueError`."""

    def check(text: str) -> T:
        try:
            return parse(text)
        except BadInput as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return check
