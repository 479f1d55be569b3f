"""A component's options, each declared once, as a field of its `Config`; flags with env twins.

A declaration holds the flag's value, help, default and parser. The command line, the env twins and
the values of the fields follow from it. Bad input is one line, and a flag wins over its twin:
defaults are None to argparse, so that a twin can fill in before the real default. What a pod's
environment and its service account say beside them is here too. Knows no component.
"""

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from edge_sidecars.runtime.cli.environment import name_unknown_variables
from edge_sidecars.runtime.cli.parser import Parser as Parser
from edge_sidecars.runtime.cli.values import (
    BadInput,
    address,
    count,
    seconds,
    size,
    switch,
    whole,
)
from edge_sidecars.runtime.version import VERSION

# Where kubelet projects the pod's token, CA and namespace.
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"

T = TypeVar("T")
Given = Mapping[str, str | list[str] | None]
Parse = Callable[[str], Any]
_KEY = "option"


class Options:
    """One look-up order for every option: flag, env twin, default.

    An empty variable is none: manifests leave variables empty rather than out. `prefix` is that of
    the twins; `given` is what was parsed, with lists for options that may be repeated. `others`:
    by option, another program's variable for it, which its twin wins over.
    """

    def __init__(
        self,
        given: Given,
        environ: Mapping[str, str],
        *,
        prefix: str,
        others: Mapping[str, str] | None = None,
    ) -> None:
        self._given = given
        self._environ = environ
        self._prefix = prefix
        self._others = others or {}

    @contextmanager
    def naming_variables(self) -> Iterator[None]:
        """A `BadInput` that names a flag also names the variable from which its value came."""
        try:
            yield
        except BadInput as error:
            text = str(error)
            flags = dict.fromkeys(re.findall(r"--([a-z][a-z-]*[a-z])(?![\w-])", text))
            sources = [f"--{it} is from {source}" for it in flags if (source := self._source(it))]
            if not sources:
                raise
            raise BadInput("; ".join([text, *sources])) from error

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
        return self.parsed(name, choice(*choices), choices[0])

    def among(self, *names: str) -> Iterator[str]:
        """Those of the options about which something was said, as it was said."""
        for name in names:
            told = self._given.get(name) or self._twin(name)
            if told:
                text = " ".join(told) if isinstance(told, list) else told
                yield f"{flag(name)} {text if text.isprintable() else repr(text):.120}"

    def _twin(self, name: str) -> str:
        variable = self._variable(name)
        return self._environ[variable] if variable else ""

    def _variable(self, name: str) -> str:
        """The one that says something, "" where none does."""
        candidates = (self._prefix + name.upper(), self._others.get(name, ""))
        return next((it for it in candidates if self._environ.get(it)), "")

    def _source(self, flag_name: str) -> str:
        name = flag_name.replace("-", "_")
        return "" if self._given.get(name) else self._variable(name)


def is_bare(
    parser: Parser,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    prefix: str,
    others: Collection[str] = (),
) -> bool:
    """Whether nothing at all says what to do: no flag, no twin, none of `others`, no pod. Says so
    then, in one line with the remedy, to somebody who tries an image."""
    told = {*parser.twins(prefix), *others, "KUBERNETES_SERVICE_HOST"}
    if arguments or any(environ.get(name) for name in told):
        return False
    unknown = name_unknown_variables(parser, environ, prefix=prefix, others=others)
    sys.stderr.write(
        f"{parser.prog}: no flag and no {prefix} variable says what to do, and this is no pod; "
        f"`{parser.prog} --help` lists the flags{unknown}\n"
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


def api_server(environ: Mapping[str, str], *, remedy: str) -> str:
    """The URL of the pod's API server. Raises `BadInput` outside of a pod, which ends in
    `remedy`."""
    host = environ.get("KUBERNETES_SERVICE_HOST")
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    if not host:
        raise BadInput(
            f"no API server: KUBERNETES_SERVICE_HOST is not set, so this is no pod; {remedy}"
        )
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        return f"https://{address(place)}"
    except BadInput as error:
        raise BadInput(
            f"KUBERNETES_SERVICE_HOST {host!r:.80} and KUBERNETES_SERVICE_PORT {port!r:.80} are no "
            f"address: leave both to kubelet, or {remedy.rpartition('; ')[2]}"
        ) from error


def pod_namespace(
    environ: Mapping[str, str], service_account_dir: Path, *, remedy: str = "set POD_NAMESPACE"
) -> str:
    """The namespace of this pod; "" outside of a pod. Raises `BadInput`, which ends in `remedy`."""
    namespace = environ.get("POD_NAMESPACE")
    if namespace:
        return namespace
    file = service_account_dir / "namespace"
    try:
        return file.read_text().strip() if file.is_file() else ""
    except (OSError, ValueError) as error:
        raise BadInput(f"{file}: {error}; {remedy}") from error


def may_be_there(path: Path) -> bool:
    """Also where it may not be looked for: who reads it then learns why it cannot."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


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
    `is_switch`: the flag alone means true, as Go's boolean flags do. The help names the default
    in any case."""
    arguments: dict[str, Any] = {}
    if is_repeated:
        arguments["action"] = "append"
    if is_switch:
        arguments |= {"nargs": "?", "const": "true"}
    text = text.format(default=default)
    if default and "default" not in text:
        text = f"{text}; default {default}" if text else f"default {default}"
    return dataclasses.field(
        metadata={_KEY: Option(value, text, parse, default, name, group, arguments)}
    )


_METAVARS: dict[Parse, str] = {seconds: "DURATION", whole: "NUMBER", count: "NUMBER", size: "SIZE"}


def setting(default: str, text: str, parse: Parse, *, group: str = "") -> Any:
    """An option with a default, whose value's name in the help is that of its parser."""
    value = _METAVARS.get(parse, "VALUE")
    return option(value, text, parse, default=default, group=group)


def one_of(value: str, text: str, *, true: str = "", name: str = "", group: str = "") -> Any:
    """An option with the choices `a|b`, the first of which is the default. `true`: the field says
    whether it is that one."""
    choices = value.split("|")
    parse = choice(*choices, true=true)
    return option(value, text, parse, default=choices[0], name=name, group=group)


def switch_option(text: str, *, name: str = "", group: str = "") -> Any:
    """A boolean that is off by default; the flag alone switches it on."""
    return option(
        "true|false", text, switch, default="false", name=name, group=group, is_switch=True
    )


def log_format_option(*, group: str = "") -> Any:
    return one_of("text|json", "default text", group=group)


def log_level_option() -> Any:
    parse = choice("info", "debug", "warning", "error")
    return option("debug|info|warning|error", "default info", parse, default="info")


def choice(*choices: str, true: str = "") -> Parse:
    """Parses one of the texts; with `true` to whether it is that one."""

    def parse(text: str) -> str | bool:
        if text not in choices:
            raise BadInput(f"{text!r:.80}: choose one of {', '.join(choices)}")
        return text == true if true else text

    return parse


def command_line(
    config: type, *, prog: str, description: str, epilog: str, example: str, manual: str
) -> Parser:
    """The flags of a `Config`, in the order and the groups of its fields."""
    parser = Parser(
        prog=prog, description=description, epilog=epilog, example=example, manual=manual
    )
    parser.add_argument("--version", action="version", version=f"{prog} {VERSION}")
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
