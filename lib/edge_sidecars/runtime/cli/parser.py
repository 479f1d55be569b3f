"""A command line whose failures are one line each, with the remedy. Knows no option.

argparse prints its page of usage for each mistake, and hides what a converter says of a value.
"""

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from edge_sidecars.runtime.cli.values import BadInput

T = TypeVar("T")
# The site of the manuals.
MANUALS = "https://edge-sidecars.github.io/edge-sidecars/latest"
_NEGATIVE = re.compile(r"-\.?[0-9]")


class Parser(argparse.ArgumentParser):
    """Raises `BadInput` from `parse_args`; an unknown flag or sub-command names the nearest known
    one. No flag may be abbreviated: a later release could add another one of that beginning. A flag
    that has one value is given once, and no value is empty: it would be that of a variable which
    is not set. `example`: a command line that is good; `manual`: a page of docs/, as
    `reference/relay`."""

    def __init__(self, *, example: str = "", manual: str = "", **arguments: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **arguments})
        self.example = example
        self.manual = manual
        # By destination: the value of each flag that was seen.
        self._given: dict[str, object] = {}
        for name, action in _ACTIONS.items():
            self.register("action", name, action)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given.clear()
        words = sys.argv[1:] if args is None else args
        return super().parse_known_args([*self._joined(words)], namespace)

    def format_help(self) -> str:
        example = f"\nExample:\n  {self.example}\n" if self.example else ""
        manual = f"\nManual: {MANUALS}/{self.manual}/\n" if self.manual else ""
        return super().format_help() + example + manual

    def takes(self, action: argparse.Action, option: str | None, value: object) -> None:
        """Raises `BadInput` for an empty value of `option`, or a second one."""
        if value == "":
            named, else_ = option or action.metavar, ", or drop the flag" if option else ""
            raise BadInput(f"{named} '' is empty: name a value{else_}")
        if option is None or isinstance(action, argparse._AppendAction):
            return
        if action.dest in self._given:
            both = f", {self._given[action.dest]!r:.80} and {value!r:.80}"
            shown = "" if action.nargs == 0 else both
            raise BadInput(f"{option} is given twice{shown}: drop one")
        self._given[action.dest] = value

    def _joined(self, words: Sequence[str]) -> Iterator[str]:
        """With a negative number as the value of the flag before it, whose parser refuses it:
        argparse takes `-1s` for a flag."""
        rest = iter(words)
        for word in rest:
            if word == "--":
                yield word
                break
            action = self._option_string_actions.get(word)
            following = next(rest, None) if action is not None and action.nargs is None else None
            if following is None:
                yield word
            elif _NEGATIVE.match(following):
                yield f"{word}={following}"
            else:
                yield from (word, following)
        yield from rest

    def error(self, message: str) -> NoReturn:
        """One line instead of argparse's page of usage."""
        line = " ".join(message.split())
        lacking = re.fullmatch(r"argument ([^ :/]+)\S*: expected one argument", line)
        if lacking is not None:
            value = self._option_string_actions[lacking[1]].metavar or "VALUE"
            raise BadInput(f"{lacking[1]} lacks its value: write {lacking[1]} {value}")
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


class _Once:
    """Before an action of argparse: the parser looks at what it is given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        if not isinstance(self, argparse.Action):
            raise TypeError("an action of argparse has to follow")
        parser.takes(self, option, values)
        super().__call__(parser, namespace, values, option)  # type: ignore[misc]


class _Store(_Once, argparse._StoreAction):
    pass


class _StoreTrue(_Once, argparse._StoreTrueAction):
    pass


class _Append(_Once, argparse._AppendAction):
    pass


_ACTIONS = {None: _Store, "store": _Store, "store_true": _StoreTrue, "append": _Append}


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
