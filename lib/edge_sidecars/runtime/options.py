"""A component's options, each declared once: as a field of its `Config`.

A declaration holds the flag's value, help, default and parser. The command line, the env twins and
the values of the fields follow from it. Knows no component.
"""

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edge_sidecars.runtime.flags import Options, Parser, flag, named
from edge_sidecars.runtime.values import BadInput

Parse = Callable[[str], Any]
_KEY = "option"


@dataclasses.dataclass(frozen=True)
class Option:
    """`value` and `text` are the help's. `default`: a text for `parse`; without one the field is
    None. `name`: the flag's, where the field has another. `group`: the title of the group that
    begins here. `arguments`: further ones of argparse."""

    value: str
    text: str
    parse: Parse
    default: str | None
    name: str
    group: str
    arguments: Mapping[str, Any]


def option(
    value: str,
    text: str,
    parse: Parse = str,
    *,
    default: str | None = None,
    name: str = "",
    group: str = "",
    is_repeated: bool = False,
    is_switch: bool = False,
) -> Any:
    """A field of a dataclass. `is_repeated`: a tuple, and the flag may be given several times.
    `is_switch`: the flag alone means true, as Go's boolean flags do."""
    arguments: dict[str, Any] = {}
    if is_repeated:
        arguments["action"] = "append"
    if is_switch:
        arguments |= {"nargs": "?", "const": "true"}
    text = text.format(default=default)
    return dataclasses.field(
        metadata={_KEY: Option(value, text, parse, default, name, group, arguments)}
    )


def setting(value: str, text: str, parse: Parse, *, group: str = "") -> Any:
    """An option whose help shows its default as its value."""
    return option(value, text, parse, default=value, group=group)


def one_of(value: str, text: str, *, true: str = "", name: str = "", group: str = "") -> Any:
    """An option with the choices `a|b`, the first of which is the default. `true`: the field says
    whether it is that one."""
    choices = value.split("|")
    parse = choice(*choices, true=true)
    return option(value, text, parse, default=choices[0], name=name, group=group)


def log_format_option(*, group: str = "") -> Any:
    return one_of("text|json", "default text", group=group)


def log_level_option() -> Any:
    parse = choice("info", "debug", "warning", "error")
    return option("debug|info|warning|error", "default info", parse, default="info")


def choice(*choices: str, true: str = "") -> Parse:
    """Parses one of the texts; with `true` to whether it is that one."""

    def parse(text: str) -> str | bool:
        if text not in choices:
            raise BadInput(f"{text!r}: choose one of {', '.join(choices)}")
        return text == true if true else text

    return parse


def command_line(config: type, *, prog: str, description: str, epilog: str) -> Parser:
    """The flags of a `Config`, in the order and the groups of its fields."""
    parser = Parser(prog=prog, allow_abbrev=False, description=description, epilog=epilog)
    group: argparse._ActionsContainer = parser
    for _, each in declared(config):
        if each.group:
            group = parser.add_argument_group(each.group)
        group.add_argument(flag(each.name), metavar=each.value, help=each.text, **each.arguments)
    return parser


def option_values(config: type, options: Options) -> dict[str, Any]:
    """The fields of a `Config` that are options, by name. Raises `BadInput`."""
    return {field: _value(each, options) for field, each in declared(config)}


def _value(it: Option, options: Options) -> Any:
    if it.arguments.get("action") == "append":
        return tuple(named(it.name, it.parse, text) for text in options.texts(it.name))
    default = None if it.default is None else it.parse(it.default)
    return options.parsed(it.name, it.parse, default)


def declared(config: type) -> Iterator[tuple[str, Option]]:
    """The options of a `Config` in their order, each with the name of its field."""
    for field in dataclasses.fields(config):
        found = field.metadata.get(_KEY)
        if found is not None:
            yield field.name, dataclasses.replace(found, name=found.name or field.name)
