"""Options that say nothing without another one, or beside it: each component has a table of them.

Guarantees: what was said and means nothing is refused, never ignored; the message has the option as
it was said and the one that it depends on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from edge_sidecars.runtime.cli.options import Options, declared, flag
from edge_sidecars.runtime.cli.values import BadInput


@dataclass(frozen=True, slots=True)
class Needs:
    """`names` say something only where `option` is given; with a `value`, where it has that one."""

    names: tuple[str, ...]
    option: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Excludes:
    """`names` say nothing where `option` has this value; `why` follows it in the message."""

    names: tuple[str, ...]
    option: str
    value: str
    why: str


Combination: TypeAlias = Needs | Excludes


def refuse_meaningless(config: type, options: Options, table: Iterable[Combination]) -> None:
    """Of a `Config`. Raises `BadInput` for the first option that means nothing."""
    for it in table:
        said = next(options.among(*it.names), None)
        if said is None:
            continue
        is_so = _has_value(config, options, it.option, it.value)
        other = f"{flag(it.option)} {it.value}".rstrip()
        match it:
            case Needs() if not is_so:
                raise BadInput(f"{said} needs {other}: add it, or drop this one")
            case Excludes() if is_so:
                raise BadInput(f"{said}: with {other} {it.why}: drop one")


def _has_value(config: type, options: Options, name: str, value: str) -> bool:
    """Without a value: whether any is given."""
    if not value:
        return bool(options.text(name) or options.texts(name))
    parse, default = next((it.parse, it.default) for _, it in declared(config) if it.name == name)
    found: object = options.parsed(name, parse, parse(default) if default else None)
    wanted: object = parse(value)
    return found == wanted
